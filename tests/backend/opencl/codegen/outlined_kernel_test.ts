/** A kernel that calls its body does what the plain one does, and is a third of the machine code on PoCL. */
import { assert, assertEquals } from "@std/assert";
import { type Generated, generated } from "../../../../backend/opencl/codegen/generated.ts";
import { canOutline, outlinedKernel } from "../../../../backend/opencl/codegen/outlined_kernel.ts";
import { preludeFor } from "../../../../backend/opencl/codegen/prelude.ts";
import { buildOptions, driverOf } from "../../../../backend/opencl/runtime/driver.ts";
import { Buffer, manager, nn, Program, Tensor } from "../../../../mod.ts";
import { openCLDevice, testOpenCL } from "../../../opencl.ts";

const groups = 64, rounds = 2000, width = 96;

/** Every group fills an array of its own over and over, and adds it up. */
function kernel(body: string, local: readonly number[] = [1]): Generated {
  return generated({
    inputs: [],
    outputs: ["float32"],
    parameters: [{ kind: "index", value: width }],
    checksIndices: false,
    isWide: false,
    global: [groups],
    local,
    body,
  });
}

const mine = kernel(`  const int group = get_group_id(0), item = get_local_id(0);
  local float mine[${width}], other[16];
  float16 sum = 0.0f;
  vstore16((float16)(item), 0, other);
  for (int round = 0; round < ${rounds}; ++round) {
    for (int k = 0; k < p0; ++k) mine[(k * 7 + round) % p0] = group;
    for (int k = 0; k < p0; k += 16) sum += vload16(0, mine + k) + vload16(0, other);
  }
  o0[get_global_id(0)] = sum.s0;`);

/** The result of a kernel's text on the device for tests, and the bytes of its binary. */
function run(text: string, outputs = groups): { values: number[]; bytes: number } {
  const { context, clDevice, queue } = openCLDevice;
  const driver = driverOf(clDevice!), prelude = preludeFor(text, driver.readsHeader);
  using program = new Program(context!, `${prelude}\n${text}`)
    .build(buildOptions(driver));
  using made = program.kernel("made");
  using buffer = new Buffer(context!, 4 * outputs);
  made.setArgs([buffer, 0, width]);
  queue!.enqueueKernel(made, 1, BigUint64Array.of(BigInt(groups)), BigUint64Array.of(1n));
  const values = new Float32Array(outputs);
  queue!.read(buffer, values, { blocking: true }).release();
  return { values: [...values], bytes: program.binary(clDevice!).length };
}

testOpenCL("outlinedKernel: each group has local memory, whichever thread runs it", () => {
  const want = Array.from({ length: groups }, (_, group) => rounds * (width / 16) * group);
  assertEquals(run(outlinedKernel("made", mine)).values, want);
  assertEquals(run(`kernel void made${mine.source}`).values, want);
});

testOpenCL("outlinedKernel: PoCL compiles the body of a kernel once", () => {
  if (!driverOf(openCLDevice.clDevice!).copiesKernels) return;
  const roots = (count: number): Generated => {
    const lines = Array.from({ length: count }, (_, k) => `  sum = sqrt(sum * ${k}.5f + item);`);
    return kernel(`  const float item = get_global_id(0);
  float16 sum = 0.0f;
${lines.join("\n")}
  o0[get_global_id(0)] = sum.s0;`);
  };
  const plain = (made: Generated) => run(`kernel void made${made.source}`);
  const outlined = (made: Generated) => run(outlinedKernel("made", made));
  const [short, long] = [roots(1), roots(400)];
  assertEquals(outlined(long).values, plain(long).values);
  // The binary also holds intermediate code, which grows alike.
  const growth = (form: typeof plain) => form(long).bytes - form(short).bytes;
  const [once, copied] = [growth(outlined), growth(plain)];
  assert(once < 0.85 * copied, `400 lines take ${once} bytes outlined, ${copied} plain`);
});

Deno.test("outlinedKernel: kernels whose groups have several items, or that ask for sizes, keep their bodies", () => {
  assert(canOutline(mine));
  assert(!canOutline(kernel("  o0[get_global_id(0)] = 1;", [64])));
  assert(!canOutline(kernel("  o0[get_global_id(0)] = get_global_size(0);")));
});

testOpenCL("outlinedKernel: attention of odd lengths agrees between the backends", async () => {
  const shape = [8, 8, 77, 24];
  const of = async (name: "cl" | "cpu"): Promise<number[]> => {
    const inputs = [0.7, 0.3, 0.11].map((step) =>
      Tensor.fromHost(Float32Array.from({ length: 8 * 8 * 77 * 24 }, (_, k) => Math.sin(k * step)))
        .to(manager.default(name)).reshape(shape)
    );
    const [q, k, v] = inputs as [Tensor, Tensor, Tensor];
    return [...await nn.scaledDotProductAttention(q, k, v, { isCausal: true }).toHost("float32")];
  };
  const [cl, cpu] = [await of("cl"), await of("cpu")];
  assert(cl.every((value, k) => Math.abs(value - cpu[k]!) < 1e-5));
});
