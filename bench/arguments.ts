/** Command lines of the benchmarks; a mistake is said in a line, with status 2. */
import { parseArgs, type ParseArgsConfig } from "node:util";
import { unknownFlag, UsageError } from "../examples/flags.ts";

/** The types of flags, as `parseArgs` of node:util takes them. */
type Options = NonNullable<ParseArgsConfig["options"]>;

/**
 * The values of flags.
 *
 * @throws UsageError for an unknown flag; it lists the right ones.
 * @throws TypeError for a flag without its value, or text that belongs to none.
 */
export function flagValues<O extends Options>(
  args: string[],
  options: O,
): ReturnType<typeof parseArgs<{ args: string[]; options: O }>>["values"] {
  const { tokens } = parseArgs({ args, options, strict: false, tokens: true });
  const unknown = tokens.find((token) =>
    token.kind === "option" && !Object.hasOwn(options, token.name)
  );
  if (unknown?.kind === "option") throw unknownFlag(unknown.name, Object.keys(options));
  return parseArgs({ args, options }).values;
}

/** The choices of the command line; a mistake in it is said in a line, with status 2. */
export function argumentsOrExit<T>(parse: (args: string[]) => T): T {
  try {
    return parse(Deno.args);
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof UsageError)) throw error;
    console.error(error.message);
    Deno.exit(2);
  }
}

/** The arguments of a program without flags, such as files; ends it where there is a flag. */
export function filesOrExit(about: string): string[] {
  return argumentsOrExit((args) => {
    const flag = args.find((arg) => arg.startsWith("-"));
    if (flag === undefined) return args;
    if (flag !== "--help" && flag !== "-h") throw unknownFlag(flag.replace(/^-+/, ""), ["help"]);
    console.log(about);
    Deno.exit(0);
  });
}

/** For a program that takes no arguments. */
export function noArgumentsOrExit(about: string): void {
  const [first] = filesOrExit(about);
  if (first === undefined) return;
  console.error(`"${first}" is not understood: this program takes no arguments`);
  Deno.exit(2);
}
