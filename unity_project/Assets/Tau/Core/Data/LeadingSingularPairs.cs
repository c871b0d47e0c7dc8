using System;
using System.Collections.Generic;

namespace Tau.Core
{
    /// <summary>
    /// Singular triplets of an upper bidiagonal matrix, largest first, one by one: eigenpairs of the symmetric
    /// tridiagonal matrix of twice its size with zero diagonal (Golub and Kahan, SIAM J. Numer. Anal. 2, 1965), by
    /// bisection and inverse iteration (Wilkinson, The Algebraic Eigenvalue Problem, 1965).
    /// </summary>
    internal sealed class LeadingSingularPairs
    {
        private const int Iterations = 5;

        /// <summary>Off-diagonal of the tridiagonal matrix: diagonal and upper diagonal in turn.</summary>
        private readonly double[] _off;
        private readonly double _bound;
        private readonly double _tolerance;
        private readonly List<double[]> _found = new List<double[]>();
        private double _largest;

        /// <summary>The pairs of a matrix, above <paramref name="tolerance"/> times the largest value.</summary>
        public LeadingSingularPairs(double[] diagonal, double[] above, double tolerance)
        {
            _tolerance = tolerance;
            _off = new double[(2 * diagonal.Length) - 1];
            for (var index = 0; index < _off.Length; index++)
            {
                _off[index] = index % 2 == 0 ? diagonal[index / 2] : above[index / 2];
                var before = index > 0 ? Math.Abs(_off[index - 1]) : 0.0;
                _bound = Math.Max(_bound, before + Math.Abs(_off[index]));
            }
            _bound *= 1.0 + 1e-12;
        }

        /// <summary>The singular value found last.</summary>
        public double Value { get; private set; }

        /// <summary>[n], unit length: left vector of the value found last.</summary>
        public double[] Left { get; private set; }

        /// <summary>[n], unit length: right vector of the value found last.</summary>
        public double[] Right { get; private set; }

        /// <summary>Finds the next pair; false where the rank is exhausted.</summary>
        public bool Next()
        {
            if (2 * _found.Count >= _off.Length + 1 || _bound < 1e-300)
            {
                return false;
            }
            Value = Bisect(_found.Count);
            _largest = Math.Max(_largest, Value);
            if (Value <= _tolerance * _largest)
            {
                return false;
            }
            var vector = Iterate();
            _found.Add(vector);
            Right = Every(vector, 0);
            Left = Every(vector, 1);
            return true;
        }

        /// <summary>The eigenvalue below which all but <paramref name="above"/> eigenvalues lie.</summary>
        private double Bisect(int above)
        {
            double low = 0.0, high = _bound;
            var wanted = _off.Length - above; // eigenvalues smaller than the one that is looked for
            while (true)
            {
                var middle = low + ((high - low) / 2.0);
                if (middle <= low || middle >= high)
                {
                    return high;
                }
                if (Below(middle) > wanted)
                {
                    high = middle;
                }
                else
                {
                    low = middle;
                }
            }
        }

        /// <summary>Number of eigenvalues below a value: negative terms of Sturm's sequence.</summary>
        private int Below(double value)
        {
            var tiny = _bound * 1e-290;
            var term = -value;
            var count = term < 0.0 ? 1 : 0;
            foreach (var off in _off)
            {
                term = Math.Abs(term) < tiny ? -tiny : term;
                term = -value - (off * off / term);
                count += term < 0.0 ? 1 : 0;
            }
            return count;
        }

        private double[] Iterate()
        {
            var system = new ShiftedTridiagonal(_off, Value, _bound);
            var random = new AgentRandom(1, _found.Count);
            var vector = new double[_off.Length + 1];
            for (var index = 0; index < vector.Length; index++)
            {
                vector[index] = random.NextUniform() - 0.5;
            }
            for (var iteration = 0; iteration < Iterations; iteration++)
            {
                system.Solve(vector);
                Scale(vector, 1.0 / Largest(vector));
                foreach (var other in _found)
                {
                    Remove(vector, other);
                }
                Scale(vector, 1.0 / Length(vector));
            }
            return vector;
        }

        private static double[] Every(double[] vector, int first)
        {
            var part = new double[vector.Length / 2];
            for (var index = 0; index < part.Length; index++)
            {
                part[index] = vector[(2 * index) + first];
            }
            Scale(part, 1.0 / Length(part));
            return part;
        }

        private static void Remove(double[] vector, double[] other)
        {
            var product = 0.0;
            for (var index = 0; index < vector.Length; index++)
            {
                product += vector[index] * other[index];
            }
            for (var index = 0; index < vector.Length; index++)
            {
                vector[index] -= product * other[index];
            }
        }

        private static void Scale(double[] vector, double factor)
        {
            for (var index = 0; index < vector.Length; index++)
            {
                vector[index] *= factor;
            }
        }

        private static double Largest(double[] vector)
        {
            var largest = 0.0;
            foreach (var value in vector)
            {
                largest = Math.Max(largest, Math.Abs(value));
            }
            return largest;
        }

        private static double Length(double[] vector)
        {
            var sum = 0.0;
            foreach (var value in vector)
            {
                sum += value * value;
            }
            return Math.Sqrt(sum);
        }
    }
}
