import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { parseOptions } from "../../bench/tune.ts";
import { candidateTiles, currentTile, type Tile, tileText } from "../../bench/tune/candidates.ts";
import { isNear, Trial } from "../../bench/tune/trial.ts";
import { contractionsOf, work } from "../../bench/tune/works.ts";
import type { OpenCLBackend } from "../../backend/opencl/runtime/opencl_backend.ts";
import type { Target } from "../../backend/kernel/target.ts";
import type { RegisterGemmTile } from "../../backend/opencl/templates/gemm/register_tiled_gemm.ts";
import { generateKernel } from "../../backend/opencl/templates/generate.ts";
import { keyOf } from "../../backend/opencl/templates/parts/tiling.ts";
import { device, manager } from "../../mod.ts";
import { testWithCache, withFreshBackend } from "../backend/opencl/fixture.ts";
import { hasOpenCL, testOpenCL } from "../opencl.ts";
import { plain } from "../plain.ts";
import { fileURLToPath } from "node:url";

const handle = hasOpenCL ? manager.default("cl") : null!;

/** A CPU's driver takes seconds to compile a GPU's large tiles. */
function isQuick(tile: Tile): boolean {
  return !("tm" in tile) || tile.tm * tile.tn * tile.bk <= 128;
}

/** Contractions of every kind of kernel, of sizes that no tile divides. */
const works = [work("matmul", "33x17x70"), work("linear", "13x70x9"), work("conv", "2x3x9x35,5,3")];

/** A test with a backend as another start of a program would make it. */
function testFresh(
  name: string,
  fn: (backend: OpenCLBackend) => void | Promise<void>,
  deviceType?: "cpu" | "gpu",
): void {
  const run = async (backend: OpenCLBackend): Promise<void> => {
    using _active = device(handle);
    await fn(backend);
  };
  testOpenCL(name, () => withFreshBackend(run, deviceType));
}

for (const deviceType of ["cpu", "gpu"] as const) {
  testFresh(`every tile gives the same values (a ${deviceType}'s kernels)`, async (backend) => {
    const kinds = new Set<string>();
    for (const contraction of works.flatMap((w) => contractionsOf(w, backend))) {
      const { shape } = contraction;
      kinds.add(shape.kind);
      const all = candidateTiles(shape, backend.target).filter(isQuick);
      const tiles = all.filter((_, k) => k % Math.ceil(all.length / 4) === 0);
      assert(tiles.length > 1, `${contraction.name} has other tiles`);
      const ways = [{}, ...tiles.map((tile) => ({ tile }))];
      using trial = new Trial(backend, contraction, ways);
      assertEquals(await trial.sound(), [...ways.keys()], contraction.name);
    }
    assertEquals(
      [...kinds].sort(),
      deviceType === "gpu"
        ? ["local-memory"]
        : ["direct-convolution", "inner-product", "register-tiled"],
    );
  }, deviceType);
}

testFresh(
  "tune: a convolution and its input's gradient have tiles, its kernel's none",
  (backend) => {
    const found = contractionsOf(work("conv", "2x8x14x14,16,3"), backend);
    assertEquals(found.map(({ name }) => name.split(" ").at(-1)), ["forward", "dx"]);
  },
  "cpu",
);

testFresh("tune: a sum in any number of parts gives the same values", async (backend) => {
  const [contraction] = contractionsOf(work("matmul", "7x960x18"), backend);
  using trial = new Trial(backend, contraction!, [1, 2, 5, 7, 64].map((parts) => ({ parts })));
  assertEquals(await trial.sound(), [0, 1, 2, 3, 4]);
});

Deno.test("tune: values that differ by more than the last digits are not the same", () => {
  const wanted = Float32Array.of(1, -2, 0);
  assert(isNear(Float32Array.of(1.0001, -2, 0), wanted));
  assert(!isNear(Float32Array.of(1.001, -2, 0), wanted));
  assert(!isNear(Float32Array.of(1, -2, NaN), wanted));
});

testWithCache("tune: the tuner writes what it finds; the next start uses it", async (folder) => {
  // Any tile is good enough, so that there is something to write.
  const args = ["--matmul", "20x24x40", "--seconds", "0.01", "--gain=-1000"];
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "bench/tune.ts", "--device", handle.selector, ...args],
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    env: { NETCL_CACHE_DIR: folder, ...plain },
  }).output();
  const text = new TextDecoder().decode(stdout);
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  assertStringIncludes(text, "matmul 20x24x40");
  assertStringIncludes(text, "1 written to " + folder);

  await withFreshBackend(async (backend) => {
    using _active = device(handle);
    const [contraction] = contractionsOf(work("matmul", "20x24x40"), backend);
    const { shape, kernel } = contraction!;
    const untuned = { ...backend.target, tuned: new Map() };
    const tile = currentTile(shape, backend.target), usual = currentTile(shape, untuned);
    assert(tileText(tile) !== tileText(usual), "the tile is another");
    assertStringIncludes(text, tileText(tile));
    const { source } = backend.prepare([kernel])[0]!;
    if (shape.kind === "register-tiled") {
      const { rows, columns } = tile as RegisterGemmTile;
      // Tiles of all columns start at none but the first.
      const steps = columns < shape.n ? [rows, columns] : [rows];
      for (const step of steps) assertStringIncludes(source, ` * ${step})`);
      // A program's name stands before what was generated.
      const textOf = (target: Target) => generateKernel(kernel, target)[0]!.source;
      const tuned = new Map([[keyOf(shape), { tile }]]);
      assertStringIncludes(source, textOf({ ...untuned, tuned }));
      assert(!source.includes(textOf(untuned)), "the text is that of the usual tile");
    }
    using trial = new Trial(backend, contraction!, [{}, { tile }]);
    assertEquals(await trial.sound(), [0, 1], keyOf(shape));
  });
});

Deno.test("tune: the tuner takes sizes as they are documented, and says how to write others", () => {
  const names = (...args: string[]) => parseOptions(args)!.works.map(({ name }) => name);
  assertEquals(names("--matmul", "512x256x1024", "--matmul", "8x2x3x4"), [
    "matmul 512x256x1024",
    "matmul 8x2x3x4",
  ]);
  assertEquals(names("--conv", "32x16x28x28,32,3"), ["conv 32x16x28x28,32,3"]);
  assert(names().length > 10);
  assertThrows(() => parseOptions(["--matmul", "512"]), TypeError, "[BATCHx]MxKxN");
  assertThrows(() => parseOptions(["--conv", "1x2x3x4"]), TypeError, "NxCxHxW,FILTERS,SIZE");
  assertThrows(() => parseOptions(["--linear", "0x2x3"]), TypeError, "is 0");
  assertThrows(() => parseOptions(["--seconds", "soon"]), TypeError, "a number");
  assertEquals(parseOptions(["--help"]), null);
});
