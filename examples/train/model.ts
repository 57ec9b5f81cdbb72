import { nn } from "@netcl/netcl";
import type { Options } from "./options.ts";

/** A model that reads digits of `size` by `size` pixels. */
export function makeModel(kind: Options["model"], size: number): nn.Module {
  if (kind === "mlp") {
    return new nn.Sequential(
      new nn.Flatten(),
      new nn.Linear(size * size, 256),
      new nn.ReLU(),
      new nn.Linear(256, 10),
    );
  }
  return new nn.Sequential(
    new nn.Conv2d(1, 16, 3, { padding: 1 }),
    new nn.ReLU(),
    new nn.MaxPool2d(2),
    new nn.Conv2d(16, 32, 3, { padding: 1 }),
    new nn.ReLU(),
    new nn.MaxPool2d(2),
    new nn.Flatten(),
    new nn.Linear(32 * (size / 4) ** 2, 10),
  );
}
