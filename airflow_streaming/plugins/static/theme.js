// Light or dark, as Airflow around this page is.

export function followTheme(changed) {
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const theme = isDark(media) ? "dark" : "light";
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    changed?.();
  };
  apply();
  media.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  try {
    if (window.parent !== window) {
      const root = window.parent.document.documentElement;
      new MutationObserver(apply).observe(root, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
    }
  } catch {
    // Not framed by Airflow: the system's choice counts.
  }
}

function isDark(media) {
  try {
    if (window.parent !== window) {
      const root = window.parent.document.documentElement;
      if (root.classList.contains("dark")) return true;
      if (root.classList.contains("light")) return false;
    }
    const stored = window.localStorage.getItem("theme");
    if (stored === "dark" || stored === "light") return stored === "dark";
  } catch {
    // Storage may be blocked.
  }
  return media.matches;
}

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
