// Suite: first; takes long.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { findBrowser, Page } from "./browser.ts";
import { type Run, runExample } from "./run_example.ts";

/** Runs the server, calls `fn` with its address, and ends it as Ctrl+C does. */
async function whileServing(fn: (address: string) => Promise<void>): Promise<Run> {
  let used: Promise<void> | null = null;
  const run = await runExample("serve.ts", ["--port", "0", "--epochs", "15"], (out, child) => {
    const [address] = /http:\S+/.exec(out) ?? [];
    if (address !== undefined) used ??= fn(address).finally(() => child.kill("SIGINT"));
  });
  assert(used !== null, run.out + run.err);
  await used;
  return run;
}

async function read(address: string, pixels: unknown): Promise<[number, unknown]> {
  const response = await fetch(`${address}/read`, { method: "POST", body: JSON.stringify(pixels) });
  return [response.status, await response.json()];
}

/** A circle: what the training data has as 0. */
const zero = [
  ...[0, 0, 0.6, 1, 1, 0.6, 0, 0],
  ...[0, 0.6, 1, 0.4, 0.4, 1, 0.6, 0],
  ...Array.from({ length: 4 }, () => [0, 1, 0.4, 0, 0, 0.4, 1, 0]).flat(),
  ...[0, 0.6, 1, 0.4, 0.4, 1, 0.6, 0],
  ...[0, 0, 0.6, 1, 1, 0.6, 0, 0],
];

const browser = findBrowser();

async function readsAndRefuses(address: string): Promise<void> {
  const page = await fetch(address);
  assertMatch(page.headers.get("content-type")!, /text\/html/);
  assert((await page.text()).includes("Draw a digit"));
  const [status, probabilities] = await read(address, zero);
  assertEquals(status, 200);
  assertEquals((probabilities as number[]).indexOf(Math.max(...probabilities as number[])), 0);
  assertEquals(await read(address, [1, 2]), [400, { error: "send an array of 64 numbers" }]);
  assertEquals(await read(address, zero.map((shade) => shade * 9)), [
    400,
    { error: "each number is a shade from 0 to 1" },
  ]);
  const elsewhere = await fetch(`${address}/elsewhere`);
  assertEquals([elsewhere.status, await elsewhere.text()], [
    404,
    "There are GET / and POST /read.",
  ]);
}

async function readsWhatIsDrawn(address: string): Promise<void> {
  await using page = await Page.open(browser!, address);
  const box = JSON.parse(
    await page.evaluate("JSON.stringify(board.getBoundingClientRect())") as string,
  );
  const draw = async (points: [number, number][]) => {
    await page.evaluate("document.getElementById('clear').click()");
    await page.drag(points.map(([x, y]) => [box.x + x, box.y + y]));
    for (;;) {
      const best = await page.evaluate("document.querySelector('li.best b')?.textContent ?? ''");
      if (best !== "") return best;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const circle = Array.from({ length: 40 }, (_, k): [number, number] => {
    const angle = 2 * Math.PI * k / 36;
    return [160 + 75 * Math.sin(angle), 160 - 120 * Math.cos(angle)];
  });
  assertEquals(await draw(circle), "0");
  assertEquals(await page.evaluate("document.getElementById('error').textContent"), "");
}

Deno.test("serve.ts reads digits, refuses what is none, and ends by Ctrl+C", async (t) => {
  const { code, err } = await whileServing(async (address) => {
    await t.step("by requests", () => readsAndRefuses(address));
    await t.step({
      name: "drawn with the mouse in a browser",
      ignore: browser === null,
      fn: () => readsWhatIsDrawn(address),
    });
  });
  assertEquals(code, 0, err);
});
