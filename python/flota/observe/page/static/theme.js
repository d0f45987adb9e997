// By day and by night: as the system says, unless somebody has chosen.

const NEXT = { auto: "light", light: "dark", dark: "auto" };
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem("flota theme") ?? "auto";
  } catch {
    return "auto"; // a browser that keeps nothing
  }
}

export function theme(button, onChange) {
  let chosen = stored() in NEXT ? stored() : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
    button.textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[chosen];
    button.setAttribute("aria-label", `Colours: ${chosen}. Change to ${NEXT[chosen]}`);
    onChange();
  };
  button.addEventListener("click", () => {
    chosen = NEXT[chosen];
    try {
      localStorage.setItem("flota theme", chosen);
    } catch {
      // then it holds for this visit
    }
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}
