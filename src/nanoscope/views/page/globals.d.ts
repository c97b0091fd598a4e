// What the scripts use besides each other, for the type checker only.

/** uPlot, as far as plot.js uses it (the package youplot has no types). */
declare class uPlot {
  constructor(options: object, data: ArrayLike<unknown>[], holder: Element);
}
