// Loaded before the first paint, so that the colours do not change after it.
(() => {
  let kept = null;
  try { kept = localStorage.getItem("fournos-theme"); } catch { /* storage may be forbidden */ }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
