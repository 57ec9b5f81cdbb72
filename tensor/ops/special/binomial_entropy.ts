/** The entropy of binomial distributions: a sum over all numbers of successes, with its derivative. */
import { result } from "../../core/apply.ts";
import { withoutGrad } from "../../core/modes/grad_mode.ts";
import type { Tensor } from "../../core/mod.ts";
import { callElementKernel, elementKernel } from "./element_kernel.ts";

/** Logarithms of probabilities one after another, from none on; at an infinite logit it is 0. */
const kernel = elementKernel({
  name: "binomial_entropy",
  inputs: { count: 1, logit: 1 },
  outputs: ["entropy", "slope"],
  numbers: [],
  text: `
    const T n = count[i];
    const T l = logit[i];
    T sum = 0;
    T moved = 0;
    if (!(n >= 0) || l != l) {
      sum = (n - n) / (n - n) + l;
      moved = sum;
    } else if (fabs(l) <= LARGEST) {
      const T low = log(1 + exp(-fabs(l)));
      const T few = l > 0 ? -(l + low) : -low;
      const T many = l > 0 ? -low : l - low;
      const T mean = n * exp(many);
      T size = n * few;
      for (T k = 0; k <= n; k++) {
        const T share = exp(size);
        if (share > 0) {
          sum -= share * size;
          moved -= share * size * (k - mean);
        }
        size += log((n - k) / (k + 1)) + l;
      }
    }
    entropy[i] = sum;
    slope[i] = moved;
`,
});

/**
 * The entropies of binomial distributions in nats; gradients go to the logits.
 *
 * @param count Trials: whole numbers.
 * @param logits Logits of a success, of the shape of the trials.
 */
export function binomialEntropy(count: Tensor, logits: Tensor): Tensor {
  const [entropy, slope] = withoutGrad(() =>
    callElementKernel("entropy", kernel, [count.detach(), logits.detach()])
  );
  return result("entropy", [logits], entropy!, (g) => [g.mul(slope!)]);
}
