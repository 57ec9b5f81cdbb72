/** One line of the doctor's report. */
export interface Finding {
  /** The thing that was looked at. */
  readonly subject: string;
  /** The finding, in words. */
  readonly found: string;
  /** The remedy; left out where all is well. */
  readonly remedy?: string;
}

/** The report as text: each line says good, or what to do. */
export function format(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ subject }) => subject.length));
  return findings.map(({ subject, found, remedy }) => {
    const head = `${remedy ? "todo" : "good"}  ${subject.padEnd(width)}  `;
    const indent = " ".repeat(head.length);
    const lines = remedy ? `${found}\n${remedy}` : found;
    return head + lines.replaceAll("\n", `\n${indent}`);
  }).join("\n");
}
