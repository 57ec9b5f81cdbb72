import { nn, Tensor } from "@netcl/netcl";

/** The size of a model. */
export interface Size {
  /** The number of different tokens. */
  readonly tokens: number;
  /** Tokens that it sees behind it. */
  readonly context: number;
  /** The length of the vector of a position. */
  readonly width: number;
  readonly heads: number;
  readonly layers: number;
  /** The chance that a feature is dropped while it learns. */
  readonly dropout: number;
}

/** Positions look at earlier ones, then each thinks by itself; both add to what there is. */
class Block extends nn.Module {
  readonly norm1: nn.LayerNorm;
  readonly attention: nn.MultiheadAttention;
  readonly dropout: nn.Dropout;
  readonly norm2: nn.LayerNorm;
  readonly mlp: nn.Sequential;

  constructor({ width, heads, dropout }: Size) {
    super();
    this.norm1 = new nn.LayerNorm(width);
    this.attention = new nn.MultiheadAttention(width, heads, { batchFirst: true });
    this.dropout = new nn.Dropout(dropout);
    this.norm2 = new nn.LayerNorm(width);
    this.mlp = new nn.Sequential(
      new nn.Linear(width, 4 * width),
      new nn.GELU(),
      new nn.Linear(4 * width, width),
      new nn.Dropout(dropout),
    );
  }

  forward(x: Tensor): Tensor {
    const seen = this.norm1.forward(x);
    const attended = this.attention.forward(seen, seen, seen, { isCausal: true });
    const y = x.add(this.dropout.forward(attended));
    return y.add(this.mlp.forward(this.norm2.forward(y)));
  }
}

/**
 * A decoder-only transformer: ids of tokens (N, L) give, at every position, the logits of the token
 * that comes next, (N, L, tokens).
 */
export class Transformer extends nn.Module {
  readonly size: Size;
  readonly tokens: nn.Embedding;
  readonly positions: nn.Embedding;
  readonly dropout: nn.Dropout;
  readonly blocks: Block[];
  readonly norm: nn.LayerNorm;
  readonly head: nn.Linear;

  constructor(size: Size) {
    super();
    const { tokens, context, width, layers, dropout } = size;
    this.size = size;
    this.tokens = new nn.Embedding(tokens, width);
    this.positions = new nn.Embedding(context, width);
    this.dropout = new nn.Dropout(dropout);
    this.blocks = Array.from({ length: layers }, () => new Block(size));
    this.norm = new nn.LayerNorm(width);
    this.head = new nn.Linear(width, tokens);
  }

  forward(ids: Tensor): Tensor {
    const places = Tensor.arange(0, ids.shape[1], 1, { dtype: "int32" });
    let x = this.tokens.forward(ids).add(this.positions.forward(places));
    x = this.dropout.forward(x);
    for (const block of this.blocks) x = block.forward(x);
    return this.head.forward(this.norm.forward(x));
  }
}
