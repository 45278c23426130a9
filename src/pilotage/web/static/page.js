// What htmx leaves to do: say when the server is away, and stop renewing on request. Pages work without this.
"use strict";

(function () {
  const away = document.getElementById("away");
  let last = new Date();
  let paused = false;

  function isAnswered(yes) {
    if (yes) {
      last = new Date();
    } else {
      away.querySelector("time").textContent = last.toLocaleTimeString();
    }
    away.hidden = yes;
  }

  // Any answer of the server counts; one of a proxy that cannot reach it (502 to 504) does not.
  document.body.addEventListener("htmx:afterRequest", function (event) {
    const status = event.detail.xhr ? event.detail.xhr.status : 0;
    isAnswered(status !== 0 && !(status >= 502 && status <= 504));
  });
  document.body.addEventListener("htmx:beforeRequest", function (event) {
    const isPoll = event.target.id === "live";
    const isSelecting = isPoll && String(window.getSelection()) !== "";
    const isTyping = isPoll && event.target.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
    if (isPoll && (paused || document.hidden || isSelecting || isTyping)) {
      event.preventDefault();
    }
  });

  // What somebody opened stays open, and what they reached by keyboard stays reached.
  let opened = [];
  let reached = "";
  function address(element) {
    return element && element.getAttribute ? element.getAttribute("href") || element.id || element.name || "" : "";
  }
  document.body.addEventListener("htmx:beforeSwap", function (event) {
    opened = Array.from(event.target.querySelectorAll("details[open][id]"), (one) => one.id);
    reached = event.target.contains(document.activeElement) ? address(document.activeElement) : "";
  });
  document.body.addEventListener("htmx:afterSwap", function () {
    opened.forEach(function (id) {
      const found = document.getElementById(id);
      if (found) found.open = true;
    });
    if (reached) {
      const again = Array.from(document.querySelectorAll("#live a, #live button, #live summary")).find((one) => address(one) === reached);
      if (again) again.focus({ preventScroll: true });
    }
  });

  const shown = document.getElementById("refreshing");
  if (shown) {
    shown.hidden = false;
    document.getElementById("pause").addEventListener("click", function (event) {
      paused = !paused;
      event.target.textContent = paused ? "Go on" : "Pause";
    });
  }
})();
