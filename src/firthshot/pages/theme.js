// Light or dark: as the system wishes, or as the button was pressed last.

const root = document.documentElement, toggle = document.getElementById("theme");
const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
function showTheme() {
  toggle.textContent = isDark() ? "Light" : "Dark";
  toggle.setAttribute("aria-pressed", String(isDark()));
}
const remember = (theme) => { try { localStorage.setItem("firthshot-theme", theme); } catch { /* a file may have no storage */ } };
const remembered = () => { try { return localStorage.getItem("firthshot-theme"); } catch { return null; } };
if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
toggle.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  remember(root.dataset.theme);
  showTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
showTheme();
