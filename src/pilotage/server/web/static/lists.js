// Filters apply as somebody types, rows sort by a click, boxes select rows, and commands can be copied.
// Pages work without this.
"use strict";

(function () {
  // Forms whose answer is the part of the page that is renewed.
  let typing = 0;
  function apply(form) {
    const query = new URLSearchParams();
    new FormData(form).forEach(function (value, name) { if (value) query.append(name, value); });
    const address = form.getAttribute("action") + (String(query) ? "?" + query : "");
    window.history.replaceState(null, "", address);
    window.htmx.ajax("GET", address, { target: "#live", swap: "outerHTML" });
  }
  document.addEventListener("input", function (event) {
    const form = event.target.closest("form.typed");
    if (!form) return;
    window.clearTimeout(typing);
    typing = window.setTimeout(function () { apply(form); }, 300);
  });

  const units = { s: 1, min: 60, h: 3600, d: 86400, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15 };
  function valueOf(cell) {
    const time = cell.querySelector("time");
    if (time) return time.dataset.age ? Number(time.dataset.age) : Date.parse(time.getAttribute("datetime"));
    const text = cell.innerText.trim();
    const number = /^(-?[\d,]*\.?\d+)\s*([A-Za-z]*)/.exec(text);
    if (number) return Number(number[1].replace(/,/g, "")) * (units[number[2]] || 1);
    return text.toLowerCase();
  }
  function compare(one, other) {
    if (one === "" || other === "") return one === other ? 0 : one === "" ? 1 : -1;
    if (typeof one === typeof other) return one < other ? -1 : one > other ? 1 : 0;
    return typeof one === "number" ? -1 : 1;
  }

  // The order that somebody chose for a table outlives its renewal.
  const orders = new Map();
  function tableName(table) {
    return Array.from(table.tHead.rows[0].cells, (cell) => cell.dataset.every || cell.textContent.trim()).join("|");
  }
  function sort(table) {
    const order = orders.get(tableName(table));
    if (!order) return;
    Array.from(table.tHead.rows[0].cells).forEach(function (cell, at) {
      if (at === order.column) cell.setAttribute("aria-sort", order.up ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row) => [valueOf(row.cells[order.column]), row]);
    rows.sort(function (one, other) {
      const way = compare(one[0], other[0]);
      return order.up || one[0] === "" || other[0] === "" ? way : -way;
    });
    body.append(...rows.map((pair) => pair[1]));
  }
  function makeSortable(table) {
    const width = table.tHead.rows[0].cells.length;
    const rows = Array.from(table.tBodies[0].rows);
    if (rows.length < 2 || rows.some((row) => row.cells.length !== width)) return;
    const name = tableName(table);
    Array.from(table.tHead.rows[0].cells).forEach(function (cell, column) {
      const words = cell.textContent.trim();
      if (!words || words === "do" || words === "look" || cell.dataset.every || cell.querySelector("button")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.title = "sort these rows";
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", function () {
        const old = orders.get(name);
        const isText = typeof valueOf(table.tBodies[0].rows[0].cells[column]) === "string";
        orders.set(name, { column, up: old && old.column === column ? !old.up : isText });
        sort(table);
      });
    });
    sort(table);
  }

  // A form lists what each of its buttons would do first; here they only count.
  function count(form) {
    const boxes = Array.from(document.querySelectorAll("input[type=checkbox][form=" + form.id + "]"));
    const many = boxes.filter((box) => box.checked).length;
    form.querySelectorAll("button").forEach(function (button) {
      button.disabled = !many;
      button.textContent = button.dataset.verb + (many ? " " + many : "") + " \u2026";
    });
    const every = document.getElementById("every-" + form.id);
    if (every) {
      every.checked = many > 0 && many === boxes.length;
      every.indeterminate = many > 0 && many < boxes.length;
    }
  }
  function makeSelectable(form) {
    const head = document.querySelector("th[data-every=" + form.id + "]");
    if (head && !head.querySelector("input")) {
      const every = document.createElement("input");
      every.type = "checkbox";
      every.id = "every-" + form.id;
      every.setAttribute("aria-label", "all of these rows");
      head.replaceChildren(every);
      every.addEventListener("change", function () {
        document.querySelectorAll("input[type=checkbox][form=" + form.id + "]").forEach(function (box) {
          box.checked = every.checked;
        });
        count(form);
      });
    }
    count(form);
  }
  document.addEventListener("change", function (event) {
    const form = event.target.form;
    if (form && form.matches("form.selection")) count(form);
  });

  function copied(text) {
    if (window.navigator.clipboard) return window.navigator.clipboard.writeText(text);
    return Promise.reject(new Error("only pages over TLS or of this machine may copy"));
  }
  function makeCopyable(code) {
    if (!/^pilotage /.test(code.textContent) || code.closest("pre, label, button") || code.dataset.copy) return;
    code.dataset.copy = "yes";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "plain copy";
    button.textContent = "copy";
    button.setAttribute("aria-label", "copy " + code.textContent);
    button.addEventListener("click", function () {
      copied(code.textContent).then(function () {
        button.textContent = "copied";
      }, function () {
        window.getSelection().selectAllChildren(code);
        button.textContent = "selected";
      });
      window.setTimeout(function () { button.textContent = "copy"; }, 2000);
    });
    code.after(" ", button);
  }

  function prepare() {
    document.querySelectorAll("main table").forEach(function (table) {
      if (table.tHead && table.tBodies.length) makeSortable(table);
    });
    document.querySelectorAll("form.selection").forEach(makeSelectable);
    document.querySelectorAll("code").forEach(makeCopyable);
    // The newest lines of a log that grows are in sight.
    document.querySelectorAll("pre.grows").forEach(function (log) { log.scrollTop = log.scrollHeight; });
  }

  // Boxes stay as they are, and a log stays where somebody reads, when the page is renewed.
  let checked = [];
  let read = new Map();
  document.body.addEventListener("htmx:beforeSwap", function (event) {
    checked = Array.from(event.target.querySelectorAll("input[type=checkbox][form]:checked"), (box) => box.value);
    read = new Map();
    event.target.querySelectorAll("pre.grows").forEach(function (log) {
      if (log.scrollTop + log.clientHeight < log.scrollHeight - 40) read.set(log.id, log.scrollTop);
    });
  });
  document.body.addEventListener("htmx:afterSwap", function () {
    document.querySelectorAll("#live input[type=checkbox][form]").forEach(function (box) {
      box.checked = checked.includes(box.value);
    });
    prepare();
    read.forEach(function (top, id) {
      const log = document.getElementById(id);
      if (log) log.scrollTop = top;
    });
  });
  prepare();
})();
