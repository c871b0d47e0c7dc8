using System;

namespace Tau.Core
{
    /// <summary>
    /// A symmetric tridiagonal matrix with zero diagonal minus a multiple of the identity, factored by Gaussian
    /// elimination with row exchanges. Made for a shift next to an eigenvalue: a pivot of zero becomes a tiny one.
    /// </summary>
    internal sealed class ShiftedTridiagonal
    {
        private readonly double[] _pivot;
        private readonly double[] _first;
        private readonly double[] _second;
        private readonly double[] _factor;
        private readonly bool[] _exchanged;

        /// <summary>Factors the matrix; <paramref name="size"/> is about its largest eigenvalue.</summary>
        public ShiftedTridiagonal(double[] off, double shift, double size)
        {
            var count = off.Length + 1;
            _pivot = new double[count];
            _first = new double[count];
            _second = new double[count];
            _factor = new double[count];
            _exchanged = new bool[count];
            var tiny = size * 1.1e-16;
            double diagonal = -shift, above = off[0];
            for (var row = 0; row + 1 < count; row++)
            {
                var next = row + 1 < off.Length ? off[row + 1] : 0.0;
                Eliminate(row, off[row], -shift, next, tiny, ref diagonal, ref above);
            }
            _pivot[count - 1] = Math.Abs(diagonal) < tiny ? tiny : diagonal;
        }

        /// <summary>Replaces a right-hand side by the solution.</summary>
        public void Solve(double[] vector)
        {
            var last = vector.Length - 1;
            for (var row = 0; row < last; row++)
            {
                if (_exchanged[row])
                {
                    var held = vector[row];
                    vector[row] = vector[row + 1];
                    vector[row + 1] = held;
                }
                vector[row + 1] -= _factor[row] * vector[row];
            }
            for (var row = last; row >= 0; row--)
            {
                var sum = vector[row];
                sum -= row + 1 <= last ? _first[row] * vector[row + 1] : 0.0;
                sum -= row + 2 <= last ? _second[row] * vector[row + 2] : 0.0;
                vector[row] = sum / _pivot[row];
            }
        }

        /// <summary>
        /// One step: the running row (diagonal, above) against the next row (below, other, next); the larger of both
        /// leading numbers becomes the pivot.
        /// </summary>
        private void Eliminate(
            int row, double below, double other, double next, double tiny, ref double diagonal, ref double above)
        {
            if (Math.Abs(diagonal) >= Math.Abs(below))
            {
                _pivot[row] = Math.Abs(diagonal) < tiny ? tiny : diagonal;
                _first[row] = above;
                _factor[row] = below / _pivot[row];
                diagonal = other - (_factor[row] * above);
                above = next;
                return;
            }
            _exchanged[row] = true;
            _pivot[row] = Math.Abs(below) < tiny ? tiny : below;
            _first[row] = other;
            _second[row] = next;
            _factor[row] = diagonal / _pivot[row];
            diagonal = above - (_factor[row] * other);
            above = -_factor[row] * next;
        }
    }
}
