using System;

namespace Tau.Core
{
    /// <summary>
    /// Standardise, project on principal components, scale to [-1, 1]; fitted once. The sign of a principal component
    /// is arbitrary; here its largest loading by absolute value is positive, so that the same vocabulary gives the same
    /// targets on every machine.
    /// </summary>
    internal sealed class TokenProjection
    {
        private const double ConstantColumn = 1e-12;
        private const double ConstantComponent = 1e-9;

        private readonly double[] _mean;
        private readonly double[] _scale;
        private readonly double[] _low;
        private readonly double[] _high;
        private double[][] _axes;

        private TokenProjection(int width, int components)
        {
            _mean = new double[width];
            _scale = new double[width];
            _low = new double[components];
            _high = new double[components];
        }

        /// <summary>Fits to the first <paramref name="count"/> (at least 1) of the vectors [K][d].</summary>
        public static TokenProjection Fit(float[][] vectors, int count, int components)
        {
            var fitted = new TokenProjection(vectors[0].Length, components);
            fitted.FitColumns(vectors, count);
            var standard = new double[count][];
            for (var row = 0; row < count; row++)
            {
                standard[row] = fitted.Standard(vectors[row]);
            }
            fitted._axes = PrincipalAxes.Of(standard, components);
            fitted.FitRange(standard);
            return fitted;
        }

        /// <summary>Targets [n][A] in [-1, 1]; what lies outside of the fitted range is clipped to it.</summary>
        public float[][] Apply(float[][] vectors)
        {
            return Array.ConvertAll(vectors, vector => Unit(Standard(vector)));
        }

        private void FitColumns(float[][] vectors, int count)
        {
            for (var column = 0; column < _mean.Length; column++)
            {
                var sum = 0.0;
                for (var row = 0; row < count; row++)
                {
                    sum += vectors[row][column];
                }
                _mean[column] = sum / count;
                var squares = 0.0;
                for (var row = 0; row < count; row++)
                {
                    var difference = vectors[row][column] - _mean[column];
                    squares += difference * difference;
                }
                var deviation = Math.Sqrt(squares / count);
                _scale[column] = deviation > ConstantColumn ? deviation : 1.0;
            }
        }

        private void FitRange(double[][] standard)
        {
            for (var component = 0; component < _axes.Length; component++)
            {
                _low[component] = double.PositiveInfinity;
                _high[component] = double.NegativeInfinity;
                foreach (var row in standard)
                {
                    var projected = Dot(row, _axes[component]);
                    _low[component] = Math.Min(_low[component], projected);
                    _high[component] = Math.Max(_high[component], projected);
                }
            }
        }

        private double[] Standard(float[] vector)
        {
            var result = new double[_mean.Length];
            for (var column = 0; column < result.Length; column++)
            {
                result[column] = (vector[column] - _mean[column]) / _scale[column];
            }
            return result;
        }

        private float[] Unit(double[] standard)
        {
            var result = new float[_axes.Length];
            for (var component = 0; component < result.Length; component++)
            {
                var span = _high[component] - _low[component];
                if (span > ConstantComponent)
                {
                    var unit = (2.0 * (Dot(standard, _axes[component]) - _low[component]) / span) - 1.0;
                    result[component] = (float)Math.Min(Math.Max(unit, -1.0), 1.0);
                }
            }
            return result;
        }

        private static double Dot(double[] left, double[] right)
        {
            var sum = 0.0;
            for (var index = 0; index < left.Length; index++)
            {
                sum += left[index] * right[index];
            }
            return sum;
        }
    }
}
