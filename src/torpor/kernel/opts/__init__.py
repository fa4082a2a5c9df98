"""What an `Opt` does to a kernel: axes split and lengthened, tiles copied beside the loops."""
