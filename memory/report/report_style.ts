import { Markup } from "./html.ts";

// Paul Tol's muted scheme and three of his bright one: told apart also by the colour-blind.
const colours = [
  "#4477aa",
  "#ee6677",
  "#228833",
  "#ccbb44",
  "#66ccee",
  "#aa3377",
  "#ee8866",
  "#44bb99",
  "#77aadd",
  "#999933",
  "#882255",
  "#bbcc33",
];

const colourRules = colours
  .map((colour, i) => `.o-${i}{fill:${colour};background:${colour}}`)
  .join("");

/**
 * The style of the report: follows the reader's light or dark scheme, needs nothing from outside.
 */
export const style: Markup = new Markup(`
:root{color-scheme:light dark;--text:#1d2126;--quiet:#667080;--line:#dde2e8;--card:#f5f7f9;--page:#fff;
--free:#e6eaee;--rest:#a3acb8;--small:#ccd3db}
@media (prefers-color-scheme:dark){:root{--text:#e5e8ec;--quiet:#98a2b0;--line:#343b45;--card:#1d2228;
--page:#14181c;--free:#2b323a;--rest:#6b7684;--small:#454e59}}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.45 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:25px;margin:0}h2{font-size:17px;margin:0 0 6px}
section{margin-top:30px;min-width:0}.hint,.empty{color:var(--quiet);font-size:13px;margin:2px 0 8px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin-top:18px}
.card{background:var(--card);border-radius:8px;padding:10px 12px}.card .hint{margin:0}
.name{color:var(--quiet);font-size:12px}.value{font-size:18px;font-weight:600;white-space:nowrap}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:0 36px}
svg{display:block;width:100%;height:auto}svg text{font:11.5px system-ui,sans-serif;fill:var(--text)}
svg .tick{fill:var(--quiet)}.grid{stroke:var(--line);stroke-width:1}
.blocks path{stroke:var(--page);stroke-width:.15}.blocks path:hover,.segments rect:hover{opacity:.6}
path.reserved{fill:none;stroke:var(--text);stroke-width:1.4}.plot path{vector-effect:non-scaling-stroke}
.timeline{cursor:crosshair;touch-action:pan-y;user-select:none}.mark{fill:var(--text);fill-opacity:.15}
.reset{font:13px system-ui,sans-serif;margin:4px 0 0}
.shapes{display:grid;grid-template-columns:repeat(auto-fit,minmax(260px,1fr));gap:4px 28px;font-size:14px}
.shapes p{margin:4px 0}.shape{height:46px;width:150px}
.shape polyline{fill:none;stroke:#4477aa;stroke-width:2;stroke-linejoin:round}
i.reserved{height:0;border-top:2px solid var(--text);vertical-align:middle}
.limit{stroke:#cc3311;stroke-width:1.2;stroke-dasharray:6 4}.peak{stroke:var(--text);stroke-dasharray:2 3}
.peak-dot{fill:var(--text)}svg .note{font-weight:600}
.o-rest{fill:var(--rest);background:var(--rest)}.others{fill:var(--small);background:var(--small)}
.free{fill:var(--free)}.fenced{fill:var(--free);stroke:var(--rest);stroke-dasharray:2 2}
.segments rect{stroke:var(--page);stroke-width:.4}
i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:7px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:8px 0 0;padding:0;font-size:13px}
table{border-collapse:collapse;width:100%;font-size:14px}
td,th{padding:4px 10px 4px 0;border-bottom:1px solid var(--line);text-align:left;overflow-wrap:anywhere}
th{color:var(--quiet);font-weight:500;font-size:12px}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{width:22%}.bar div{height:10px;border-radius:2px;min-width:1px}
${colourRules}`);
