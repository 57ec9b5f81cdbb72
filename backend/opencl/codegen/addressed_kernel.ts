/**
 * A kernel whose arguments are one: a word of 64 bits for each, buffers by their addresses.
 *
 * NVIDIA's driver (580.159) takes 3.6 us to launch a kernel of one argument, however long, and 0.3 us more for
 * each memory object, which in a training step are half of the time: 6 to 8 us a launch.
 */
import { allArguments, type Generated, kernelText, namedKernel } from "./generated.ts";

/** The number of 64-bit words that such a kernel is given. */
export function wordsOf({ args }: Generated): number {
  return allArguments(args).length;
}

/** A kernel of that name, which takes the arguments of `generated`, in their order, as words. */
export function addressedKernel(name: string, generated: Generated): string {
  const { args, body, local, attributes } = generated, all = allArguments(args);
  const type = `${name}_words`;
  const taken = all.map(({ type, name }, k) => `  ${type} ${name} = ${fromWord(type, k)};\n`);
  const words = { type: `const ${type}`, name: "words" };
  const text = kernelText([words], `${taken.join("")}${body}`, local, attributes);
  return `typedef struct { ulong at[${all.length}]; } ${type};\n${namedKernel(name, text)}`;
}

/** Word k as a value of a type of arguments. */
function fromWord(type: string, k: number): string {
  const word = `words.at[${k}]`, plain = type.replace(/^const /, "");
  if (plain === "float") return `as_float((uint)${word})`;
  if (plain === "double") return `as_double(${word})`;
  return `(${type.endsWith("*") ? type : plain})${word}`;
}
