using System;

namespace Tau.Core
{
    /// <summary>Leading right singular vectors of a matrix, each with its largest loading positive.</summary>
    internal static class PrincipalAxes
    {
        /// <summary>Singular values up to this share of the largest one are zero.</summary>
        private const double RankTolerance = 1e-9;

        /// <summary>Loadings that differ by less than this share are equally large: the first decides.</summary>
        private const double SignTolerance = 1e-9;

        /// <summary>The first axes of a matrix.</summary>
        /// <param name="rows">[K][d], K and d at least 1.</param>
        /// <param name="components">How many axes are wanted.</param>
        /// <returns>[components][d], unit length; zeros beyond the rank of the matrix.</returns>
        public static double[][] Of(double[][] rows, int components)
        {
            var width = rows[0].Length;
            var axes = new double[components][];
            for (var component = 0; component < components; component++)
            {
                axes[component] = new double[width];
            }
            // The reduction needs at least as many rows as columns: of a wide matrix take the transposed one, whose
            // columns are the rows and whose left singular vectors are wanted.
            var wide = rows.Length < width;
            var reduced = Bidiagonal.Reduce(wide ? Copy(rows) : Transposed(rows));
            var pairs = new LeadingSingularPairs(reduced.Diagonal, reduced.Above, RankTolerance);
            for (var component = 0; component < components && pairs.Next(); component++)
            {
                axes[component] = wide ? reduced.ToLeft(pairs.Left) : reduced.ToRight(pairs.Right);
                Orient(axes[component]);
            }
            return axes;
        }

        private static void Orient(double[] axis)
        {
            var largest = 0.0;
            foreach (var loading in axis)
            {
                largest = Math.Max(largest, Math.Abs(loading));
            }
            var decides = Array.FindIndex(axis, loading => Math.Abs(loading) >= largest * (1.0 - SignTolerance));
            if (axis[decides] < 0.0)
            {
                for (var column = 0; column < axis.Length; column++)
                {
                    axis[column] = -axis[column];
                }
            }
        }

        private static double[][] Copy(double[][] rows)
        {
            return Array.ConvertAll(rows, row => (double[])row.Clone());
        }

        private static double[][] Transposed(double[][] rows)
        {
            var columns = new double[rows[0].Length][];
            for (var column = 0; column < columns.Length; column++)
            {
                columns[column] = new double[rows.Length];
                for (var row = 0; row < rows.Length; row++)
                {
                    columns[column][row] = rows[row][column];
                }
            }
            return columns;
        }
    }
}
