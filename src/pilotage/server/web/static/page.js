// A stream says when the page is stale; htmx then fetches the part that changes. Pages work without this.
"use strict";

(function () {
  const away = document.getElementById("away");
  let last = new Date();
  function live() { return document.getElementById("live"); }

  function isAnswered(yes) {
    if (yes) {
      last = new Date();
    } else {
      away.querySelector("time").textContent = last.toLocaleTimeString();
    }
    away.hidden = yes;
  }

  // The stream is open while somebody looks: browsers allow few connections to a server.
  let stream = null;
  let paused = false;
  let retry = 2000;
  function open() {
    if (stream || paused || document.hidden || !live() || !live().dataset.live) return;
    stream = new EventSource(live().dataset.live);
    stream.addEventListener("start", function () {
      retry = 2000;
      isStale = isStale || !away.hidden;
      isAnswered(true);
      renew();
    });
    stream.addEventListener("stale", function () { isStale = true; renew(); });
    stream.onerror = function () {
      isAnswered(false);
      if (stream.readyState !== EventSource.CLOSED) return; // the browser connects again by itself
      close();
      retry = Math.min(2 * retry, 60000);
      window.setTimeout(open, retry);
      // A session that has ended is sent to the sign-in by the answer.
      isStale = true;
      renew();
    };
  }
  function close() {
    if (stream) stream.close();
    stream = null;
  }
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) close(); else open();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);

  // A part that was slow to come is fetched less often: a tenth of the time is spent on it at most.
  let isStale = false;
  let timer = 0;
  let begun = 0;
  let earliest = 0;
  function isBusy() {
    const active = document.activeElement;
    return document.hidden || paused || String(window.getSelection()) !== "" ||
      (live().contains(active) && active.matches("input:not([type=checkbox]), select, textarea"));
  }
  function renew() {
    if (!isStale || timer || begun) return;
    const left = isBusy() ? 1000 : earliest - performance.now();
    if (left > 0) {
      timer = window.setTimeout(function () { timer = 0; renew(); }, left);
      return;
    }
    isStale = false;
    begun = performance.now();
    window.htmx.trigger(live(), "stale");
  }

  // What somebody opened stays open, and what they reached by keyboard stays reached.
  let opened = [];
  let reached = "";
  function address(element) {
    if (!element || !element.getAttribute) return "";
    return element.getAttribute("href") || element.id || (element.name ? element.name + "=" + (element.type === "checkbox" ? element.value : "") : "");
  }
  document.body.addEventListener("htmx:beforeSwap", function (event) {
    opened = Array.from(event.target.querySelectorAll("details[open][id]"), (one) => one.id);
    reached = event.target.contains(document.activeElement) ? address(document.activeElement) : "";
  });
  document.body.addEventListener("htmx:afterSwap", function () {
    swapped = performance.now();
    opened.forEach(function (id) {
      const found = document.getElementById(id);
      if (found) found.open = true;
    });
    if (reached) {
      const again = Array.from(document.querySelectorAll("#live a, #live button, #live summary, #live input, #live select")).find((one) => address(one) === reached);
      if (again) again.focus({ preventScroll: true });
    }
  });
  // Any answer of the server counts; one of a proxy that cannot reach it (502 to 504) does not.
  document.body.addEventListener("htmx:afterRequest", function (event) {
    const status = event.detail.xhr ? event.detail.xhr.status : 0;
    const yes = status !== 0 && !(status >= 502 && status <= 504);
    isAnswered(yes);
    if (begun) {
      const took = performance.now() - begun;
      earliest = performance.now() + Math.max(1000 * Number(live().dataset.seconds || 5), 10 * took);
    }
    begun = 0;
    isStale = isStale || !yes;
    renew();
  });

  // Ages go on between renewals, in the words of the server.
  let swapped = performance.now();
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  function words(seconds) {
    const unit = units.find((one) => seconds >= 2 * one[1] || (one[0] === "min" && seconds >= 60));
    return unit ? Math.round(seconds / unit[1]) + " " + unit[0] : Math.round(seconds) + " s";
  }
  window.setInterval(function () {
    const since = (performance.now() - swapped) / 1000;
    if (document.hidden || paused || since < 5) return;
    document.querySelectorAll("#live time[data-age]").forEach(function (one) {
      one.textContent = words(Number(one.dataset.age) + since);
    });
  }, 5000);

  // A document can come from a file. Without this it is pasted.
  const file = document.getElementById("file");
  if (file) {
    file.closest("label").hidden = false;
    file.addEventListener("change", function () {
      if (file.files.length) file.files[0].text().then(function (text) { document.getElementById("document").value = text; });
    });
  }

  const shown = document.getElementById("refreshing");
  if (shown) {
    shown.hidden = false;
    document.getElementById("pause").addEventListener("click", function (event) {
      paused = !paused;
      event.target.textContent = paused ? "Go on" : "Pause";
      if (paused) close(); else open();
    });
  }
  open();
})();
