/**
 * Which modules were made while the constructor of another one ran: those it should be able to list. A
 * `#private` field cannot be looked into, so that a module in one would be left out in silence.
 *
 * A constructor says nothing when it ends. While it runs, though, its frame stands on the stack, at the
 * same height and called from the same place as when it began.
 */

/** A module under construction, or one that was. */
interface Entry {
  readonly module: object;
  readonly chain: readonly string[];
  /** How many frames were on the stack below its constructor, and where the last of them was. */
  readonly height: number;
  readonly caller: string;
}

/** What is read of a frame of the stack. */
interface Frame {
  readonly name: string;
  readonly isConstructor: boolean;
  readonly place: string;
}

/** The innermost is the last. Those whose constructor has ended stay until the next one begins. */
const open: Entry[] = [];
/** Who was made next at the same place: in a loop, or in a function that is called again. */
const successors = new WeakMap<object, WeakRef<object>>();
const made = new WeakMap<object, WeakRef<object>[]>();

/** Remembers a module whose base constructor runs; `base` is the class of all modules. */
export function noteConstruction(module: object, base: object): void {
  const chain = classesOf(module, base);
  const frames = framesBelow();
  // The frames of its own constructors stand on top, the base's first; each class has one at most.
  let height = frames.length;
  for (const name of chain) {
    while (height > 0 && isInner(frames[height - 1]!)) height--;
    const top = frames[height - 1];
    if (top?.isConstructor && top.name === name) height--;
  }
  const entry = { module, chain, height, caller: frames[height - 1]?.place ?? "" };
  while (open.length > 0 && !isRunning(open.at(-1)!, height, frames)) {
    const former = open.pop()!;
    const isSamePlace = former.height === height && former.caller === entry.caller;
    if (isSamePlace) successors.set(former.module, new WeakRef(module));
  }
  const holder = open.at(-1)?.module;
  if (holder) made.set(holder, [...made.get(holder) ?? [], new WeakRef(module)]);
  open.push(entry);
}

/** The modules that the constructor of this one has made and that are still there. */
export function madeBy(module: object): object[] {
  return (made.get(module) ?? []).flatMap((reference) => reference.deref() ?? []);
}

/** The module that was made next at the same place, if it is still there. */
export function successorOf(module: object): object | null {
  return successors.get(module)?.deref() ?? null;
}

/** These of its constructor's modules are not where they belong: to be said again. */
export function rememberMade(module: object, missing: readonly object[]): void {
  made.set(module, missing.map((other) => new WeakRef(other)));
}

/** The modules of a holder's constructor are known to be where they belong. */
export function forgetConstruction(module: object): void {
  made.delete(module);
}

function isRunning(entry: Entry, height: number, frames: readonly Frame[]): boolean {
  const own = frames[entry.height];
  return entry.height < height && own !== undefined && own.isConstructor &&
    entry.chain.includes(own.name) && (frames[entry.height - 1]?.place ?? "") === entry.caller;
}

/** Fields are made in a frame of their own, within that of the constructor. */
function isInner({ name }: Frame): boolean {
  return name === "<instance_members_initializer>";
}

/** The names of a module's classes, the base first. */
function classesOf(module: object, base: object): string[] {
  const names: string[] = [];
  for (let p = Object.getPrototypeOf(module); p !== null; p = Object.getPrototypeOf(p)) {
    names.unshift(p.constructor.name);
    if (p === base) break;
  }
  return names;
}

/** What V8 tells of a frame. */
interface CallSite {
  getFunctionName(): string | null;
  isConstructor(): boolean;
  getFileName(): string | null;
  getLineNumber(): number | null;
  getColumnNumber(): number | null;
}

/** The frames of the stack from the first to the base constructor's. */
function framesBelow(): Frame[] {
  const host = Error as unknown as {
    stackTraceLimit: number;
    prepareStackTrace?: (error: Error, sites: CallSite[]) => unknown;
  };
  const { stackTraceLimit, prepareStackTrace } = host;
  try {
    host.stackTraceLimit = Infinity;
    host.prepareStackTrace = (_, sites) => sites;
    const sites = new Error().stack as unknown as CallSite[];
    // On top are this function and the one that notes.
    return sites.slice(2).reverse().map((site) => ({
      name: site.getFunctionName() ?? "",
      isConstructor: site.isConstructor(),
      place: `${site.getFileName()}:${site.getLineNumber()}:${site.getColumnNumber()}`,
    }));
  } finally {
    host.stackTraceLimit = stackTraceLimit;
    if (prepareStackTrace) host.prepareStackTrace = prepareStackTrace;
    else delete host.prepareStackTrace;
  }
}
