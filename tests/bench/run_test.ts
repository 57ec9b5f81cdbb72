import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { isIdle, parseOptions, refusalOf, run } from "../../bench/run.ts";
import { inFolder } from "../temporary_folder.ts";

const load = (oneMinute: number, cores: number) => ({ oneMinute, fiveMinutes: 0, cores });

Deno.test("isIdle refuses a machine on which something else computes", () => {
  assertEquals([isIdle(load(0.4, 2)), isIdle(load(1, 2))], [true, false]);
  assertEquals([isIdle(load(1.9, 16)), isIdle(load(5, 16))], [true, false]);
});

Deno.test("parseOptions refuses --figures of a part: quick, of some works or of some peers", () => {
  for (const part of [["--quick"], ["--only", "mlp"], ["--peers", "torch"]]) {
    assertThrows(
      () => parseOptions(["--figures", "figures.json", ...part]),
      TypeError,
      "Cannot write --figures of a part",
    );
    assertEquals(parseOptions(["--json", "some.json", ...part])!.json, "some.json");
  }
});

Deno.test("refusalOf sees who computes at the start, and who begins later", () => {
  assertEquals(refusalOf(load(0.2, 16), []), null);
  assertMatch(refusalOf(load(9, 16), [])!, /load 9\.0 .*wait until the machine is idle/);
  // One that comes and goes spoils no median.
  assertEquals(refusalOf(load(0.2, 16), [0.1, 0.2, 7]), null);
  assertEquals(
    refusalOf(load(0.2, 16), [0.1, 6, 7]),
    "others computed on 6.0 of 16 cores meanwhile; measure again",
  );
});

Deno.test("run writes no figures on a busy machine, and measures nothing for them", () =>
  inFolder(async (folder) => {
    const figures = `${folder}/figures.json`, said: string[] = [];
    const { error } = console;
    console.error = (text: string) => said.push(text);
    try {
      assertEquals(await run(parseOptions(["--figures", figures])!, () => load(9, 16)), 1);
    } finally {
      console.error = error;
    }
    assertMatch(said.join(), /^Cannot write --figures: load 9\.0/);
    assertEquals([...Deno.readDirSync(folder)], []);
  }));
