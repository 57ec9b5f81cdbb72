/** The table of PyTorch's names says what is true. */
import { assertEquals } from "@std/assert";
import file from "./names.json" with { type: "json" };
import { absent, renamed } from "./pytorch.ts";
import { runProgram } from "../../run_deno.ts";
import { formatted, isThere, page, path, program, rows } from "./table.ts";

const all = rows();
const titleOf = ({ space, name }: { space: string; name: string }) => `${space}.${name}`;

Deno.test("each name of PyTorch is here, here under another name, or absent with a reason", () => {
  const unknown = all.filter(({ here, why }) => here === undefined && why === undefined);
  assertEquals(unknown.map(titleOf), []);
  assertEquals(all.length, Object.values(file.names).join(" ").split(" ").length);
});

Deno.test("what stands in place of a name is what the package can compute", async () => {
  const expressions = new Set(all.flatMap(({ here, by }) => by !== null && here ? [here] : []));
  const env = { NETCL_DEVICE: "cpu" };
  const { out, err } = await runProgram(program([...expressions]), { env });
  assertEquals(out + err, "");
});

Deno.test("no name that is said to be absent is here", () => {
  assertEquals(all.filter((row) => row.why !== undefined && isThere(row)).map(titleOf), []);
});

Deno.test("each row of the tables is about a name that there is", () => {
  const used = new Set(all.map(({ by }) => by));
  assertEquals(Object.keys(renamed).filter((by) => !used.has(by)), []);
  assertEquals(Object.keys(absent).filter((by) => !used.has(by)), []);
});

Deno.test("the guide's page of PyTorch's names is the table", async () => {
  assertEquals(
    await Deno.readTextFile(path),
    await formatted(page()),
    "run: deno run -A tests/laws/parity/table.ts",
  );
});
