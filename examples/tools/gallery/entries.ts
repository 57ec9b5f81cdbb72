/** A program of the gallery. */
export interface Entry {
  /** The example's file. */
  readonly file: string;
  /** The heading, where the file has several entries. Default: the file. */
  readonly title?: string;
  /** Its purpose, for the page. */
  readonly about: string;
  /** Its flags. */
  readonly args: readonly string[];
  /** A download, or an argument, that it needs: it is listed, and not run for the page. */
  readonly needs?: string;
  /** The command that starts it, where that is not Deno alone. */
  readonly launcher?: readonly string[];
  /** Rows of its output that are shown; the others are left out. */
  readonly rows?: number;
  /** The name of a picture of its terminal, instead of its text. */
  readonly terminal?: string;
  /** A picture that it draws: the file, and its name on the page. */
  readonly pictures?: readonly Picture[];
  /** A page that it serves is opened, drawn on with the mouse, and shown. */
  readonly page?: Picture;
}

/** A picture of the page. */
export interface Picture {
  /** The path that the program writes, in the folder where it runs; of a page, nothing. */
  readonly from?: string;
  /** Its name among the guide's images. */
  readonly image: string;
  /** The picture in words, for those who do not see it. */
  readonly alt: string;
}

/** The programs in the order of the page. */
export const entries: readonly Entry[] = [
  {
    file: "linear_regression.ts",
    about: "The shortest training loop, to be copied: finds the line that noisy points lie about.",
    args: [],
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
      "A transformer learns words and parts of words from the first volume of a novel, and to " +
      "write like it: the text comes while it is made.",
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
    file: "classify.ts",
    about:
      "Says what is in a picture, by an EfficientNet with the weights of a checkpoint of PyTorch.",
    args: ["IMAGE"],
    needs: "Weights and names of classes are fetched the first time; `--labels` names other ones.",
  },
  {
    file: "detect.ts",
    about: "Finds the faces in a picture, and draws boxes around them.",
    args: ["IMAGE"],
    needs: "The weights are fetched the first time.",
  },
  {
    file: "models/chat.ts",
    about: "A chat with a language model in the terminal, which says how fast it writes.",
    args: ["--prompt", '"What is a tensor?"'],
    needs: "A model (98 MB) is fetched the first time; `--model` names another.",
  },
  {
    file: "models/chat_server.ts",
    about: "A language model behind the routes that OpenAI's clients know, streamed or whole.",
    args: [],
    needs: "A model (98 MB) is fetched the first time; `--model` names another.",
  },
  {
    file: "models/finetune.ts",
    about: "Teaches a language model a text by adapters, and saves them as PEFT has them.",
    args: [],
    needs: "A model (98 MB) is fetched the first time; `--model` names another.",
  },
  {
    file: "models/embed.ts",
    about: "Searches a folder of texts by meaning.",
    args: ["--query", '"How do I find a memory leak?"'],
    needs: "A model is fetched the first time; `--model` names another.",
  },
  {
    file: "tools/devices.ts",
    about: "What clinfo tells: every platform and device, and all that they say of themselves; " +
      "`--json` for programs.",
    args: [],
    rows: 16,
  },
  {
    file: "tools/doctor.ts",
    about: "What this machine has of what netcl needs, and what to do about the rest.",
    args: [],
  },
];
