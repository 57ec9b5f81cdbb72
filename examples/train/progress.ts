/** Says how training goes: a line that renews itself on a terminal, one line an epoch elsewhere. */
export class Progress {
  readonly #epochs: number;
  readonly #batches: number;
  readonly #live = Deno.stdout.isTerminal();
  #epoch = 0;
  #batch = 0;
  #samples = 0;
  #lossSum = 0;
  #start = 0;
  #shown = 0;
  /** When the first epoch began. */
  #begun = 0;

  constructor(epochs: number, batches: number) {
    this.#epochs = epochs;
    this.#batches = batches;
  }

  begin(epoch: number): void {
    this.#begun ||= performance.now();
    this.#epoch = epoch;
    this.#batch = this.#samples = this.#lossSum = 0;
    this.#start = performance.now();
  }

  step(loss: number, samples: number): void {
    this.#batch++;
    this.#samples += samples;
    this.#lossSum += loss * samples;
    // Ten times a second is as fast as anyone reads.
    if (!this.#live || performance.now() - this.#shown < 100) return;
    this.#shown = performance.now();
    this.#write(`\r${this.#line()}  ${this.#timeLeft()}\x1b[K`);
  }

  /** @param accuracy The share of the unseen samples that the model reads right. */
  end(accuracy: number): void {
    const line = `${this.#line()}  unseen ${accuracy.toFixed(4)}`;
    this.#write(this.#live ? `\r${line}\x1b[K\n` : `${line}\n`);
  }

  interrupted(): void {
    this.#write(`${this.#live ? "\n" : ""}interrupted in epoch ${this.#epoch}: saving\n`);
  }

  /** From the mean time of a batch so far; the first batches build kernels. */
  #timeLeft(): string {
    const done = (this.#epoch - 1) * this.#batches + this.#batch;
    const all = this.#epochs * this.#batches;
    const seconds = Math.round((performance.now() - this.#begun) / 1000 * (all - done) / done);
    return seconds < 90 ? `${seconds} s left` : `${Math.round(seconds / 60)} min left`;
  }

  #line(): string {
    const width = String(this.#epochs).length;
    const seconds = (performance.now() - this.#start) / 1000;
    return [
      `epoch ${String(this.#epoch).padStart(width)}/${this.#epochs}`,
      `batch ${String(this.#batch).padStart(String(this.#batches).length)}/${this.#batches}`,
      `${Math.round(this.#samples / seconds).toLocaleString("en").padStart(7)} samples/s`,
      `loss ${(this.#lossSum / Math.max(this.#samples, 1)).toFixed(4)}`,
    ].join("  ");
  }

  #write(text: string): void {
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  }
}
