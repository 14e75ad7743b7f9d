// Boxes that scroll sideways: a shade on the side where they go on, and words for who does not see a scroll bar.
for (const box of document.querySelectorAll(".scroll")) {
  const around = document.createElement("div");
  const hint = document.createElement("div");
  hint.className = "hint";
  hint.setAttribute("aria-hidden", "true");
  const look = () => {
    const left = box.scrollLeft > 1;
    const right = box.scrollLeft + box.clientWidth < box.scrollWidth - 1;
    if (!left && !right && !around.isConnected) return;
    if (!around.isConnected) {
      around.className = "more";
      box.before(around);
      around.append(box, hint);
    }
    around.classList.toggle("left", left);
    around.classList.toggle("right", right);
    hint.textContent = right ? "scroll sideways for more →" : left ? "← scroll back" : "";
  };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  look();
}

// The scheme of colours: that of the system until the button says otherwise.
const themeButton = document.getElementById("theme");
if (themeButton) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const name = () => {
    themeButton.textContent = isDark() ? "Light" : "Dark";
    themeButton.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
  };
  themeButton.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  system.addEventListener("change", name);
  themeButton.hidden = false;
  name();
}
