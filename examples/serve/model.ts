import { nn } from "@netcl/netcl";

/** A small CNN for images of one channel, `size` pixels a side: ten classes. */
export function digitModel(size: number): nn.Module {
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
