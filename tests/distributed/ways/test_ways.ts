/** Tests of ways to run programs of several ranks. */
import { assertEquals } from "@std/assert";
import { ignoreOn } from "../../opencl.ts";
import { type Ended, hasMpirun, mpirun } from "../mpirun.ts";

/** Ways that run in the same ranks, one after the other. */
class InTurn {
  readonly #ways: string[] = [];
  #ended: Promise<Ended> | undefined;

  constructor(readonly ranks: number, readonly env: Record<string, string>) {}

  add(way: string): void {
    this.#ways.push(way);
  }

  /** Fails where this way does; the first call runs all of them. */
  async assertGood(way: string): Promise<void> {
    const { code, text } = await (this.#ended ??= this.#run());
    const lines = text.split("\n");
    const isGood = (way: string) =>
      lines.filter((line) => line.endsWith(`, ${way}: good`)).length === this.ranks;
    const failing = this.#ways.find((each) => !isGood(each));
    if (failing === way) throw new Error(text);
    if (failing === undefined) return assertEquals(code, 0, text);
    if (!isGood(way)) throw new Error(`It did not run: ${failing} failed before it`);
  }

  #run(): Promise<Ended> {
    return mpirun(this.ranks, "ways/in_turn_program.ts", this.#ways, this.env);
  }
}

const inTurn = new Map<string, InTurn>();

/**
 * A test of one way: it has run to its end in every rank.
 *
 * @param way A program of this folder, a device and further arguments: `early_program.ts?cl,host`.
 * @param options.isApart It changes what others in the same ranks would see.
 * @param options.env Variables of the ranks, which are apart then.
 */
export function testWay(
  name: string,
  ranks: number,
  way: `${string}_program.ts?${"cl" | "cpu"}${string}`,
  { env = {}, isApart = Object.keys(env).length > 0 }: {
    readonly isApart?: boolean;
    readonly env?: Record<string, string>;
  } = {},
): void {
  const [, device] = /\?(cl|cpu)/.exec(way) as unknown as [string, "cl" | "cpu"],
    key = isApart ? `${way} ${JSON.stringify(env)}` : `${ranks} ${device}`;
  const all = inTurn.get(key) ?? new InTurn(ranks, env);
  inTurn.set(key, all);
  all.add(way);
  Deno.test(name, { ignore: !hasMpirun || ignoreOn(device) }, () => all.assertGood(way));
}
