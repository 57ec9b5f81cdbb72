import { assert, assertEquals } from "@std/assert";
import { environmentVariables, readEnvironment } from "../../../ffi/mod.ts";
import { runChild } from "../child.ts";
import { setVariables } from "../../variables.ts";

Deno.test("readEnvironment returns what is set, and nothing for the empty string", () => {
  for (const [value, read] of [["1", "1"], ["", undefined], [undefined, undefined]]) {
    using _variables = setVariables({ NETCL_DEBUG: value });
    assertEquals(readEnvironment("NETCL_DEBUG"), read, `${value}`);
  }
});

Deno.test("readEnvironment reads only what is permitted, and asks for nothing", async () => {
  const source = `
    import { readEnvironment } from "@netcl/netcl/ffi";
    console.log(readEnvironment("NETCL_DEVICE"), readEnvironment("NETCL_POOL"));`;
  const env = { NETCL_DEVICE: "gpu", NETCL_POOL: "slab" };
  const permissions = ["--allow-env=NETCL_DEVICE"];
  assertEquals((await runChild(source, { env, permissions })).out, "gpu undefined");
});

Deno.test("every variable of the table is described", () => {
  for (const [name, variable] of Object.entries(environmentVariables)) {
    assert(/^NETCL_[A-Z0-9_]+$/.test(name), name);
    assert(variable.values && variable.default && variable.description, name);
  }
});

/** The NETCL_ names in the sources below a folder, apart from the table itself. */
function namesIn(folder: URL): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) => {
    if (isDirectory) return namesIn(new URL(`${name}/`, folder));
    if (!name.endsWith(".ts") || name === "environment.ts") return [];
    const text = Deno.readTextFileSync(new URL(name, folder));
    return [...text.matchAll(/"(NETCL_[A-Z0-9_]+)"/g)].map(([, variable]) => variable!);
  });
}

Deno.test("the table has the variables that the code reads, and no others", () => {
  const root = new URL("../../../", import.meta.url);
  const read = ["ffi/", "memory/", "backend/", "tensor/"]
    .flatMap((folder) => namesIn(new URL(folder, root)));
  assertEquals([...new Set(read)].sort(), Object.keys(environmentVariables).sort());
});
