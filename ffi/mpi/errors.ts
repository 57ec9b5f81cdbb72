/** Errors of MPI, and of its absence. */

/** An MPI call failed. */
export class MPIError extends Error {
  /** The class's name. */
  override readonly name = "MPIError";
  /** The C function, such as "MPI_Iallreduce". */
  readonly call: string;
  /** The returned code. */
  readonly code: number;

  /**
   * Made where a call returns anything but MPI_SUCCESS.
   *
   * @param call The C function.
   * @param code What it returned.
   * @param text What MPI_Error_string says of the code.
   */
  constructor(call: string, code: number, text: string) {
    super(`${call} failed with code ${code} (${text})`);
    this.call = call;
    this.code = code;
  }
}

/** The program was started by mpirun, and no library of MPI can be used. */
export class MPIUnavailableError extends Error {
  /** The class's name. */
  override readonly name = "MPIUnavailableError";
}
