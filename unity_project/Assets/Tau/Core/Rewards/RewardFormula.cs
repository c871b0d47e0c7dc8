namespace Tau.Core
{
    /// <summary>The reward that one answer earns.</summary>
    /// <param name="output">The action, d components. Nothing is clipped here: the environment did it.</param>
    /// <param name="target">The right answer's target, d components.</param>
    /// <param name="threshold">Absolute error strictly below which a component counts as right.</param>
    /// <param name="columns">How many leading components count, 1 to d.</param>
    /// <returns>The reward, computed in double precision.</returns>
    /// <exception cref="TauException">The threshold or the columns are outside of their range.</exception>
    /// <exception cref="System.ArgumentException">Output and target differ in length.</exception>
    public delegate double RewardFormula(float[] output, float[] target, double threshold, int columns);
}
