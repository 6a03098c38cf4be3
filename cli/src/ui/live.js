"use strict";
// Updates a page while it is visible. Without this script, the page shows its age and a link that refreshes it.
(() => {
  const path = document.body.dataset.live;
  // All pages are below a secret path.
  const root = document.currentScript.src.replace(/\/s\/[^/]*$/, "");
  const note = document.getElementById("live");
  let source = null;
  let loads = false;

  // Does not update the page while the user types, selects or copies something.
  const isInUse = (main) => {
    if (main.querySelector(":is(input, select, textarea):focus")) return true;
    const changed = (field) => field.type !== "hidden" && "defaultValue" in field && field.value !== field.defaultValue;
    if ([...main.querySelectorAll("input, textarea")].some(changed)) return true;
    const chosen = getSelection();
    return chosen !== null && !chosen.isCollapsed && main.contains(chosen.anchorNode);
  };

  const renew = async () => {
    const main = document.getElementById("main");
    if (loads || document.hidden || isInUse(main)) return;
    loads = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
      if (!answer.ok || next === null) throw new Error("press Enter where muster ui runs");
      const focused = document.activeElement;
      const way = focused instanceof HTMLAnchorElement && main.contains(focused) ? focused.getAttribute("href") : null;
      for (const open of main.querySelectorAll("details[open][id]")) next.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
      if (!isInUse(main)) {
        main.replaceWith(document.adoptNode(next));
        if (way !== null) next.querySelector(`a[href="${CSS.escape(way)}"]`)?.focus({ preventScroll: true });
      }
      note.textContent = "live";
    } catch (error) {
      note.textContent = `not live: ${error.message}`;
    }
    loads = false;
  };

  const watch = () => {
    source?.close();
    source = null;
    if (document.hidden) return;
    source = new EventSource(`${root}/live?to=${encodeURIComponent(path)}`);
    source.addEventListener("open", () => { note.textContent = "live"; });
    source.addEventListener("fresh", renew);
    source.addEventListener("error", () => { note.textContent = "not live: muster ui has ended, or is busy"; });
  };

  if (path !== undefined) {
    document.addEventListener("visibilitychange", watch);
    watch();
  }

  // `g` and a letter open a page, `/` focuses the search.
  const pages = { o: "/", j: "/jobs", m: "/machines", p: "/pools", c: "/costs", a: "/audit", d: "/dead-letters", h: "/github" };
  let goes = false;
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea") !== null;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (goes && event.key in pages) location.assign(root + pages[event.key]);
    goes = event.key === "g";
    if (event.key === "/") {
      event.preventDefault();
      (document.querySelector("main input[type=search]") ?? document.querySelector("header input")).focus();
    }
  });
})();
