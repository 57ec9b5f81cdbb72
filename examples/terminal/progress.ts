import { beside, drawChart, type Line, type Point } from "./line_chart.ts";
import { type LiveScreen, screen as programs } from "./live_screen.ts";

/** The training that is shown: its name and length. */
export interface Plan {
  /** All steps. */
  readonly steps: number;
  /** After so many of them the model is looked at: an epoch. */
  readonly stepsPerRound: number;
  /** The name of a round. Default: "epoch". */
  readonly round?: string;
  /** The unit that is counted, such as "samples". */
  readonly unit: string;
  /** True if equal ratios of losses are equally high. Default: true. */
  readonly isLogarithmic?: boolean;
}

/** Scores of the model for data that it does not learn from. */
export interface Unseen {
  readonly loss?: number;
  /** The share that it gets right. */
  readonly accuracy?: number;
}

/** A step of a training loop, as far as it is shown. */
export interface ShownStep {
  readonly loss: number;
  /** The number of samples, or of whatever is counted. */
  readonly count: number;
  /** After the last step of a round, the scores for unseen data. */
  readonly unseen?: Unseen;
}

/** Shows the steps of a training loop as they are made, and passes them on. */
export async function* shown<S extends ShownStep>(
  steps: AsyncIterable<S>,
  plan: Plan,
): AsyncGenerator<S> {
  const progress = new Progress(plan);
  for await (const step of steps) {
    progress.step(step.loss, step.count);
    if (step.unseen) progress.endRound(step.unseen);
    yield step;
  }
  progress.end();
}

/** Milliseconds between two pictures: ten a second are as fast as anyone reads. */
const FRAME_MS = 100;
const BLUE = 34, YELLOW = 33, GREEN = 32;
/** More than a chart has columns of dots; beyond, neighbours are drawn as one. */
const MAX_POINTS = 4096;
const CHART_ROWS = 7, CHART_COLUMNS = 38;

/**
 * Says how training goes: one line a round that stays, and on a terminal, below, a line with the rate
 * and the time that is left and curves of what has happened so far.
 */
export class Progress {
  readonly #plan: Plan;
  readonly #screen: LiveScreen;
  #losses: Point[] = [];
  readonly #unseen: Point[] = [];
  readonly #accuracies: Point[] = [];
  #done = 0;
  #roundLoss = 0;
  #roundAmount = 0;
  #roundStart = performance.now();
  /** End of the first step, which waits for what is made once: kernels, copies of the data. */
  #start = 0;
  #shown = -Infinity;

  constructor(plan: Plan, screen: LiveScreen = programs) {
    this.#plan = plan;
    this.#screen = screen;
  }

  /**
   * One more step is made.
   *
   * @param loss What the model has lost in it.
   * @param amount How many samples, or whatever is counted, it was made with.
   */
  step(loss: number, amount: number): void {
    if (this.#done++ === 0) this.#start = performance.now();
    this.#roundLoss += loss * amount;
    this.#roundAmount += amount;
    this.#losses.push([this.#done, loss]);
    if (this.#losses.length > MAX_POINTS) this.#losses = halved(this.#losses);
    if (!this.#screen.isLive || performance.now() - this.#shown < FRAME_MS) return;
    this.#shown = performance.now();
    this.#screen.show([this.#liveLine(), "", ...this.#charts()]);
  }

  /** A round is over; says what the model does with what it has not seen. */
  endRound(unseen: Unseen = {}): void {
    const round = Math.ceil(this.#done / this.#plan.stepsPerRound);
    if (unseen.loss !== undefined) this.#unseen.push([this.#done, unseen.loss]);
    if (unseen.accuracy !== undefined) this.#accuracies.push([this.#done, unseen.accuracy]);
    const parts = [
      this.#name(round),
      `loss ${this.#meanLoss()}`,
      ...unseen.loss === undefined ? [] : [`unseen ${unseen.loss.toFixed(4)}`],
      ...unseen.accuracy === undefined ? [] : [`accuracy ${unseen.accuracy.toFixed(4)}`],
      this.#rate(),
    ];
    this.#screen.print(parts.join("  "));
    this.#roundLoss = this.#roundAmount = 0;
    this.#roundStart = performance.now();
  }

  /** Training is over, or was interrupted: the curves stay on the terminal. */
  end(): void {
    this.#screen.show(this.#losses.length > 1 ? ["", ...this.#charts(), ""] : []);
    this.#screen.keep();
  }

  #name(round: number): string {
    const { steps, stepsPerRound } = this.#plan, rounds = Math.ceil(steps / stepsPerRound);
    return `${this.#plan.round ?? "epoch"} ${`${round}`.padStart(`${rounds}`.length)}/${rounds}`;
  }

  #liveLine(): string {
    const { steps, stepsPerRound } = this.#plan;
    const within = (this.#done - 1) % stepsPerRound + 1;
    const most = Math.min(stepsPerRound, steps);
    return [
      this.#name(Math.ceil(this.#done / stepsPerRound)),
      `step ${`${within}`.padStart(`${most}`.length)}/${most}`,
      `loss ${this.#meanLoss()}`,
      this.#rate(),
      ...this.#timeLeft(),
    ].join("  ");
  }

  #meanLoss(): string {
    return (this.#roundLoss / Math.max(this.#roundAmount, 1)).toFixed(4);
  }

  #rate(): string {
    const seconds = (performance.now() - this.#roundStart) / 1000;
    return `${Math.round(this.#roundAmount / seconds).toLocaleString("en")} ${this.#plan.unit}/s`;
  }

  /** By the mean time of a step; nothing is known of it after the first. */
  #timeLeft(): string[] {
    if (this.#done < 2) return [];
    const step = (performance.now() - this.#start) / (this.#done - 1);
    const seconds = Math.round(step * (this.#plan.steps - this.#done) / 1000);
    return [seconds < 90 ? `${seconds} s left` : `${Math.round(seconds / 60)} min left`];
  }

  #charts(): string[] {
    const { steps, isLogarithmic = true } = this.#plan;
    const size = { from: 1, until: steps, width: CHART_COLUMNS, height: CHART_ROWS };
    const lines: Line[] = [
      { points: this.#losses, colour: BLUE, name: "training" },
      { points: this.#unseen, colour: YELLOW, name: this.#unseen.length > 0 ? "unseen" : "" },
    ];
    const loss = drawChart({ ...size, title: "loss", lines, isLogarithmic });
    if (this.#accuracies.length === 0) return loss;
    const right = [{ points: this.#accuracies, colour: GREEN }];
    const accuracy = drawChart({ ...size, title: "accuracy on unseen", lines: right });
    return beside(loss, accuracy, CHART_COLUMNS);
  }
}

/** Every two neighbours as their mean. */
function halved(points: readonly Point[]): Point[] {
  return Array.from({ length: points.length >> 1 }, (_, k) => {
    const [[x0, y0], [x1, y1]] = [points[2 * k]!, points[2 * k + 1]!];
    return [(x0 + x1) / 2, (y0 + y1) / 2];
  });
}
