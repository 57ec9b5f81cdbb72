/** What a call that is recorded does to the gradients of tensors. */
import type { Node } from "../backend/engine.ts";
import type { Tensor } from "./tensor.ts";

/** What becomes of a tensor's gradient. */
export interface NotedGradient<Target> {
  readonly of: Tensor;
  /** Whether there was one before; where it is otherwise, the function does something else. */
  readonly wasThere: boolean;
  readonly next: { readonly made: Target } | "none" | "same";
}

/** The gradients that a call looks at or changes. */
export class GradientNotes {
  /** What they were before, with the node that the call finds there. */
  readonly #before = new Map<Tensor, { readonly gradient: Tensor | null; readonly node?: Node }>();
  #isOpen = true;

  /** Notes a look at a gradient, or a change of it, with what it was before. */
  note(tensor: Tensor, gradient: Tensor | null): void {
    if (!this.#isOpen || this.#before.has(tensor)) return;
    this.#before.set(tensor, gradient ? { gradient, node: gradient.node } : { gradient });
  }

  /** The call is over: the gradients of what it stepped have been used. */
  settle(stepped: ReadonlySet<Tensor>): void {
    this.#isOpen = false;
    for (const tensor of this.#before.keys()) {
      if (!stepped.has(tensor)) continue;
      this.#before.delete(tensor);
      tensor.grad?.dispose();
      tensor.grad = null;
    }
  }

  /** The gradients that the call has made. */
  made(): Tensor[] {
    return [...this.#before].flatMap(([{ grad }, { gradient }]) =>
      grad && grad !== gradient ? grad : []
    );
  }

  /** Whose gradient a node was before. */
  owner(node: Node): Tensor | null {
    for (const [tensor, before] of this.#before) if (before.node === node) return tensor;
    return null;
  }

  /** What became of each gradient; `target` says where one is that was made. */
  describe<Target>(target: (tensor: Tensor) => Target): NotedGradient<Target>[] {
    return [...this.#before].map(([of, { gradient }]) => {
      const next = of.grad === gradient ? "same" : of.grad ? { made: target(of.grad) } : "none";
      return { of, wasThere: gradient !== null, next };
    });
  }
}
