using System;

namespace Tau.Core
{
    /// <summary>
    /// A matrix as U B V^T with B upper bidiagonal: Householder reflections from both sides in turn (Golub and Kahan,
    /// SIAM J. Numer. Anal. 2, 1965). Working on the matrix itself, and not on its product with itself, keeps small
    /// singular values apart from rounding.
    /// </summary>
    internal sealed class Bidiagonal
    {
        private readonly double[][] _left;
        private readonly double[][] _right;
        private readonly double[] _leftScale;
        private readonly double[] _rightScale;

        private Bidiagonal(double[][] columns)
        {
            var count = columns.Length;
            _left = columns;
            _right = new double[count][];
            _leftScale = new double[count];
            _rightScale = new double[count];
            Diagonal = new double[count];
            Above = new double[count - 1];
        }

        /// <summary>[n]: diagonal of B.</summary>
        public double[] Diagonal { get; }

        /// <summary>[n - 1]: what stands above the diagonal of B.</summary>
        public double[] Above { get; }

        /// <summary>Reduces a matrix given by its n columns of length m at least n, which are used up.</summary>
        public static Bidiagonal Reduce(double[][] columns)
        {
            var result = new Bidiagonal(columns);
            var row = new double[columns[0].Length];
            for (var step = 0; step < columns.Length; step++)
            {
                result.Diagonal[step] = Reflector(columns[step], step, out result._leftScale[step]);
                for (var column = step + 1; column < columns.Length; column++)
                {
                    Reflect(columns[step], result._leftScale[step], columns[column], step);
                }
                if (step + 1 < columns.Length)
                {
                    result.ReflectRows(step, row);
                }
            }
            return result;
        }

        /// <summary>U times a vector [n], filled up with zeros: [m].</summary>
        public double[] ToLeft(double[] vector)
        {
            var result = new double[_left[0].Length];
            Array.Copy(vector, result, vector.Length);
            for (var step = _left.Length - 1; step >= 0; step--)
            {
                Reflect(_left[step], _leftScale[step], result, step);
            }
            return result;
        }

        /// <summary>V times a vector [n]: [n].</summary>
        public double[] ToRight(double[] vector)
        {
            var result = (double[])vector.Clone();
            for (var step = _right.Length - 2; step >= 0; step--)
            {
                Reflect(_right[step], _rightScale[step], result, step + 1);
            }
            return result;
        }

        /// <summary>Clears the row of this step right of the place above the diagonal.</summary>
        private void ReflectRows(int step, double[] row)
        {
            var columns = _left;
            var first = step + 1;
            var vector = new double[columns.Length];
            for (var column = first; column < columns.Length; column++)
            {
                vector[column] = columns[column][step];
            }
            Above[step] = Reflector(vector, first, out _rightScale[step]);
            _right[step] = vector;
            if (_rightScale[step].Equals(0.0))
            {
                return;
            }
            Array.Clear(row, 0, row.Length);
            for (var column = first; column < columns.Length; column++)
            {
                Add(row, columns[column], vector[column], first);
            }
            for (var column = first; column < columns.Length; column++)
            {
                Add(columns[column], row, -_rightScale[step] * vector[column], first);
            }
        }

        /// <summary>
        /// Turns the part of a vector from <paramref name="start"/> on into v of a reflection I - scale v v^T that maps
        /// that part on its first axis; returns the length that it gets there, with its sign.
        /// </summary>
        private static double Reflector(double[] vector, int start, out double scale)
        {
            var tail = 0.0;
            for (var index = start + 1; index < vector.Length; index++)
            {
                tail += vector[index] * vector[index];
            }
            var head = vector[start];
            if (tail.Equals(0.0))
            {
                scale = 0.0;
                return head;
            }
            var length = Math.Sqrt((head * head) + tail);
            length = head > 0.0 ? -length : length;
            vector[start] = head - length;
            scale = 2.0 / ((vector[start] * vector[start]) + tail);
            return length;
        }

        private static void Reflect(double[] vector, double scale, double[] other, int start)
        {
            if (scale.Equals(0.0))
            {
                return;
            }
            var product = 0.0;
            for (var index = start; index < vector.Length; index++)
            {
                product += vector[index] * other[index];
            }
            Add(other, vector, -scale * product, start);
        }

        private static void Add(double[] sum, double[] vector, double factor, int start)
        {
            for (var index = start; index < sum.Length; index++)
            {
                sum[index] += factor * vector[index];
            }
        }
    }
}
