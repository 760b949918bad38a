// Draws the charts, in the colours of the page's scheme, and anew when that changes. Expressions are interpreted, not compiled: no eval.
(() => {
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const coloured = (part) => {
    if (Array.isArray(part)) return part.map(coloured);
    if (part === null || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [
      key,
      key === "data" ? value : key === "range" ? value.map((one) => (typeof one === "string" ? colour(one) : one)) : coloured(value),
    ]));
  };
  const config = () => {
    const ink = { labelColor: colour("quiet"), titleColor: colour("quiet") };
    return {
      background: null,
      view: { stroke: null },
      font: "system-ui, sans-serif",
      axis: { ...ink, gridColor: colour("line"), domainColor: colour("line"), tickColor: colour("line"), labelLimit: 200 },
      legend: ink,
      mark: { color: colour("accent") },
      rule: { color: colour("faint") },
      text: { color: colour("ink") },
    };
  };
  const draw = () => {
    for (const place of document.querySelectorAll("[data-chart]")) {
      const options = { actions: false, renderer: "svg", ast: true, config: config() };
      vegaEmbed(place, coloured(specs[place.dataset.chart]), options).then(
        () => place.setAttribute("data-drawn", ""),
        (error) => console.error(`chart ${place.dataset.chart}: ${error}`),
      );
    }
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
