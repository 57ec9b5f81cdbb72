// Draws the Mandelbrot set with a kernel of one's own, then learns through a gradient of one's own.
import { customGradient, optim, rawKernel, Tensor } from "@netcl/netcl";
import { optionsWith } from "./flags.ts";
import { runExample } from "./run_example.ts";

/** The number of steps for which z = z * z + c stays within 2, for c = x + iy. */
const escapeTime = rawKernel("escapeTime", {
  // Inputs, then outputs, then numbers.
  source:
    `kernel void escapeTime(global const float* x, global const float* y, global int* n, int most) {
    const size_t i = get_global_id(0);
    float a = 0, b = 0;
    int k = 0;
    for (; k < most && a * a + b * b <= 4; ++k) {
      const float next = a * a - b * b + x[i];
      b = 2 * a * b + y[i];
      a = next;
    }
    n[i] = k;
  }`,
  output: (x) => ({ shape: x.shape, dtype: "int32" }),
  // The same for machines without OpenCL.
  cpu: ([x, y], [n], [most]) => {
    for (let i = 0; i < n!.length; i++) {
      let a = 0, b = 0, k = 0;
      for (; k < most! && a * a + b * b <= 4; k++) {
        [a, b] = [a * a - b * b + Number(x![i]), 2 * a * b + Number(y![i])];
      }
      n![i] = k;
    }
  },
});

/** Rounding has a gradient of zero; this one lets the gradient pass as if it were not there. */
const rounded = customGradient((x: Tensor) => x.round(), (g) => [g]);

const about = "Draws the Mandelbrot set with an OpenCL kernel, and learns whole numbers.";
const flags = optionsWith({ rows: "21" });
await runExample({ about, file: "examples/custom_kernel.ts", flags }, async ({ rows }, print) => {
  const height = Number(rows), width = 3 * height;
  const x = Tensor.linspace(-2.2, 0.8, width).expand([height, width]);
  const y = Tensor.linspace(-1.2, 1.2, height).unsqueeze(1).expand([height, width]);
  const picture = await escapeTime(x, y, 60).toArray() as number[][];
  for (const row of picture) {
    print(row.map((n) => " .:-=+*#%@"[Math.floor(n / 6.1)]).join(""));
  }

  const weights = Tensor.fromHost([0.2, 0.4, -0.3], { requiresGrad: true });
  const target = Tensor.fromHost([2, -1, 3]), optimizer = new optim.SGD([weights], { lr: 0.1 });
  for (let step = 0; step < 40; step++) {
    using loss = rounded(weights).sub(target).square().sum();
    optimizer.zeroGrad(), loss.backward(), optimizer.step();
  }
  print(`learned ${await rounded(weights).toArray()}`);
});
