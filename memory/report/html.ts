/** A piece of HTML or SVG; only what is escaped or made here gets into a page. */
export class Markup {
  constructor(readonly text: string) {}
}

/** Values of a template. */
export type Content = Markup | string | number | readonly Content[];

const escapes: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function render(content: Content): string {
  if (content instanceof Markup) return content.text;
  if (Array.isArray(content)) return content.map(render).join("");
  return String(content).replace(/[&<>"']/g, (character) => escapes[character]!);
}

/** A template whose values are escaped, unless they are markup themselves. */
export function html(parts: TemplateStringsArray, ...values: Content[]): Markup {
  return new Markup(
    parts.map((part, i) => i === 0 ? part : render(values[i - 1]!) + part).join(""),
  );
}
