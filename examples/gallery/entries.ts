/** A program of the gallery. */
export interface Entry {
  /** The example's file. */
  readonly file: string;
  /** The heading, where the file has several entries. Default: the file. */
  readonly title?: string;
  /** What it does, for the page. */
  readonly about: string;
  /** Its flags. */
  readonly args: readonly string[];
  /** What starts it, where that is not Deno alone. */
  readonly launcher?: readonly string[];
  /** Rows of its output that are shown; the others are left out. */
  readonly rows?: number;
  /** The name of a picture of its terminal, instead of its text. */
  readonly terminal?: string;
  /** What it draws: a file that it writes, and what the page calls it. */
  readonly pictures?: readonly Picture[];
  /** A page that it serves is opened, drawn on with the mouse, and shown. */
  readonly page?: Picture;
}

/** A picture of the page. */
export interface Picture {
  /** Where the program writes it, in the folder where it runs; of a page, nothing. */
  readonly from?: string;
  /** Its name among the guide's images. */
  readonly image: string;
  /** What it shows, for who does not see it. */
  readonly alt: string;
}

/** The programs in the order of the page. */
export const entries: readonly Entry[] = [
  {
    file: "linear_regression.ts",
    about: "The shortest training loop: finds the line that noisy points lie about.",
    args: ["--steps", "100"],
  },
  {
    file: "train.ts",
    about: "Learns to read digits, and shows how it goes: the loss of what it learns from and of " +
      "what it does not see, the share that it reads right, the rate and the time left.",
    args: ["--model", "cnn"],
    terminal: "train.svg",
    pictures: [
      {
        from: "out/loss.svg",
        image: "loss.svg",
        alt: "Loss and accuracy over 20 epochs",
      },
      {
        from: "out/confusion.svg",
        image: "confusion.svg",
        alt: "Which of 360 unseen digits was read as which",
      },
    ],
  },
  {
    file: "train.ts",
    title: "train.ts on Fashion-MNIST",
    about: "The same on 60,000 photographs of clothes (Debian, Ubuntu: " +
      "`apt install dataset-fashion-mnist`). Shirts and T-shirts are what it mistakes for one " +
      "another most.",
    args: [
      ...["--dataset", "fashion", "--model", "cnn", "--epochs", "6"],
      ...["--batch-size", "128", "--lr", "0.004"],
    ],
    terminal: "fashion.svg",
    pictures: [
      {
        from: "out/confusion.svg",
        image: "fashion_confusion.svg",
        alt: "Which of 10,000 unseen pieces of clothing was taken for which",
      },
    ],
  },
  {
    file: "distributed.ts",
    about: "What train.ts learns, on several processes that average their gradients.",
    launcher: ["mpirun", "-n", "2"],
    args: ["--epochs", "5"],
  },
  {
    file: "vae.ts",
    about: "A variational autoencoder learns to draw digits, and draws some that nobody wrote.",
    args: [],
    terminal: "vae.svg",
    pictures: [{
      from: "out/digits.svg",
      image: "digits.svg",
      alt: "96 digits, most of them easy to read",
    }],
  },
  {
    file: "transformer.ts",
    about:
      "A transformer learns from sonnets, character by character, and writes: the text comes " +
      "while it is made.",
    args: [],
    terminal: "transformer.svg",
  },
  {
    file: "serve.ts",
    about: "A page on which to draw a digit, and a model that reads it while it is drawn.",
    args: ["--epochs", "15"],
    page: { image: "serve.png", alt: "A page with a drawn 0, and how likely each digit is" },
  },
  {
    file: "clusters.ts",
    about: "k-means as a program of tensors.",
    args: [],
  },
  {
    file: "custom_kernel.ts",
    about: "An OpenCL kernel of one's own draws the Mandelbrot set; a gradient of one's own lets " +
      "whole numbers be learned.",
    args: [],
  },
  {
    file: "devices.ts",
    about: "What clinfo tells: every platform and device, and all that they say of themselves; " +
      "`--json` for programs.",
    args: [],
    rows: 16,
  },
  {
    file: "doctor.ts",
    about: "What this machine has of what netcl needs, and what to do about the rest.",
    args: [],
  },
];
