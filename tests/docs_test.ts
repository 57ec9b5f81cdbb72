import { assert, assertEquals } from "@std/assert";
import { environmentVariables } from "../ffi/host/environment.ts";
import { entryPoints, root } from "./module_graph.ts";
import { markdownTable } from "./signals/matrix.ts";
import { plain } from "./plain.ts";

const readme = await Deno.readTextFile(new URL("README.md", root));

Deno.test("every exported symbol is documented, and no private type shows", async () => {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["doc", "--lint", ...await entryPoints()],
    cwd: root,
    env: plain,
    stdout: "null",
  }).output();
  assert(success, new TextDecoder().decode(stderr));
});

/** The rows of the table under a heading of the README, cell by cell. */
function table(heading: string): string[][] {
  const section = readme.split(/^## /m).find((part) => part.startsWith(heading));
  assert(section !== undefined, `The README has no heading "${heading}"`);
  const rows = section.split("\n").filter((line) => line.startsWith("|")).slice(2);
  assert(rows.length > 0, `There is no table under "${heading}"`);
  return rows.map((row) => row.split("|").slice(1, -1).map((cell) => cell.trim()));
}

Deno.test("the README's environment variables are those of the code", () => {
  const expected = Object.entries(environmentVariables).map(([name, variable]) => [
    `\`${name}\``,
    variable.values,
    variable.default,
    variable.description,
  ]);
  const rows = expected.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  assertEquals(table("Environment variables"), expected, `The table should be:\n${rows}\n`);
});

Deno.test("the package that is published holds what users need and nothing else", async () => {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["publish", "--dry-run", "--allow-dirty", "--no-check"],
    cwd: root,
    env: plain,
  }).output();
  const listing = new TextDecoder().decode(stderr);
  assert(success, listing);
  const files = [...listing.matchAll(/file:\/\/(\S+)/g)].map(([, path]) =>
    path!.replace(root.pathname, "")
  );
  const isWanted = (path: string) =>
    /^(LICENSE|README\.md|deno\.json|mod\.ts|(ffi|memory|backend|tensor)\/[\w/]+\.ts)$/.test(path);
  assertEquals(files.filter((path) => !isWanted(path)), []);
  for (const path of ["LICENSE", "README.md", ...await entryPoints()]) {
    assert(files.includes(path), `${path} is published`);
  }
});

Deno.test("the README's table of endings is the one that the signal tests hold", () => {
  const plain = (row: string): string => row.split("|").map((cell) => cell.trim()).join("|");
  const known = new Set(readme.split("\n").map(plain));
  const rows = markdownTable().split("\n").filter((row) => !row.includes("---"));
  assertEquals(rows.filter((row) => !known.has(plain(row))), []);
});
