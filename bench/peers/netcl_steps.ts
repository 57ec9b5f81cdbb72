/** Training steps of netcl, as its users write them. */
import { amp, compile, type nn, type optim, type Tensor } from "@netcl/netcl";
import type { Precision } from "./models.ts";
import type { Runnable } from "./serve.ts";

/** The parts of a training step. */
export interface StepParts {
  readonly model: nn.Module;
  readonly optimizer: optim.Optimizer;
  readonly x: Tensor;
  readonly y: Tensor;
  readonly precision: Precision;
  /** "compiled" for a step that is replayed. */
  readonly variant: string | undefined;
  readonly sync: () => void;
  /** By default the cross entropy of logits, one row a label. */
  readonly lossOf?: (output: Tensor, y: Tensor) => Tensor;
}

/** A training step in some precision, on one batch. */
export function modelStep(parts: StepParts): Runnable {
  const { model, optimizer, precision, variant, sync } = parts;
  const { lossOf = (output, y) => output.crossEntropy(y.flatten()) } = parts;
  const scaler = precision === "float16" ? new amp.GradScaler() : null;
  const step = (x: Tensor, y: Tensor): Tensor => {
    const loss = amp.autocast(precision, () => lossOf(model.forward(x).cast("float32"), y));
    optimizer.zeroGrad();
    (scaler ? scaler.scale(loss) : loss).backward();
    if (scaler) {
      scaler.step(optimizer);
      scaler.update();
    } else optimizer.step();
    return loss;
  };
  const call = variant === "compiled" ? compile(step) : step;
  return { run: () => call(parts.x, parts.y).realize().dispose(), sync };
}
