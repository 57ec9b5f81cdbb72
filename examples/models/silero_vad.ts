/** Silero's detector of speech: how likely each 32 ms of a sound at 16,000 Hz are speech. */
import { nn, noGrad, Tensor } from "@netcl/netcl";

/** Samples of a part, and those of the part before that go with it. */
const PART = 512, CONTEXT = 64;

/** The state after a part: h and c of the recurrent cell, each (N, 128). */
export type VadState = [h: Tensor, c: Tensor];

const names: Readonly<Record<string, string>> = {
  stft: "stft_conv",
  cell: "lstm_cell",
  final: "final_conv",
};

/** The net, with the names of its safetensors file. */
export class SileroVad extends nn.Module<[Tensor, VadState], { output: Tensor; state: VadState }> {
  /** Cosines and sines of a Fourier transform. */
  readonly stft = new nn.Conv1d(1, 258, 256, { stride: 128, bias: false });
  readonly conv1 = new nn.Conv1d(129, 128, 3, { padding: 1 });
  readonly conv2 = new nn.Conv1d(128, 64, 3, { padding: 1, stride: 2 });
  readonly conv3 = new nn.Conv1d(64, 64, 3, { padding: 1, stride: 2 });
  readonly conv4 = new nn.Conv1d(64, 128, 3, { padding: 1 });
  readonly cell = new nn.LSTMCell(128, 128);
  readonly final = new nn.Conv1d(128, 1, 1);

  protected override stateName(property: string): string {
    return names[property] ?? super.stateName(property);
  }

  /** From parts (N, 576), the last samples of the part before first: likelihoods (N, 1). */
  forward(x: Tensor, state: VadState): { output: Tensor; state: VadState } {
    const waves = this.stft.forward(x.unsqueeze(1).padReflect([[0, 64]]));
    const [cosines, sines] = waves.split(129, 1) as [Tensor, Tensor];
    let y = cosines.square().add(sines.square()).sqrt();
    for (const conv of [this.conv1, this.conv2, this.conv3, this.conv4]) y = conv.forward(y).relu();
    const [h, c] = this.cell.forward(y.slice(null, null, 0), state) as VadState;
    return {
      output: this.final.forward(h.relu().unsqueeze(2)).sigmoid().squeeze(2),
      state: [h, c],
    };
  }
}

/** A detector of a part: from (1, 576) and what it gave last, null at first. */
export type Detect<S> = (x: Tensor, state: S | null) => { output: Tensor; state: S };

/** The probability of speech for each 32 ms of a sound; the last part is filled up with zeros. */
export async function likelihoods<S>(samples: Float32Array, detect: Detect<S>): Promise<number[]> {
  const found: Tensor[] = [];
  let state: S | null = null;
  for (let at = 0; at < samples.length; at += PART) {
    const part = new Float32Array(CONTEXT + PART), from = Math.max(0, at - CONTEXT);
    part.set(samples.subarray(from, at + PART), CONTEXT - (at - from));
    const next: { output: Tensor; state: S } = noGrad(() =>
      detect(Tensor.fromHost(part, { shape: [1, CONTEXT + PART] }), state)
    );
    found.push(next.output.reshape([1]));
    state = next.state;
  }
  return found.length === 0 ? [] : [...await Tensor.concat(found).toNumbers()];
}
