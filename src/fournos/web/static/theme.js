// Loaded before the first paint, so that neither colours nor the width of times change after it.
(() => {
  const kept = (name) => {
    try { return localStorage.getItem(name); } catch { return null; /* storage may be forbidden */ }
  };
  const theme = kept("fournos-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.times = kept("fournos-times") === "exact" ? "exact" : "relative";
})();
