namespace Tau.Core
{
    /// <summary>Terms of a sum by position; a struct, so that summing costs no allocation.</summary>
    internal interface ITerms
    {
        /// <summary>The term at a position.</summary>
        double At(int index);
    }

    /// <summary>
    /// Pairwise summation (Higham, SIAM J. Sci. Comput. 14, 1993) in the order that numpy uses along a contiguous
    /// axis: eight running sums in blocks of at most 128 terms. The same order gives the same last bit.
    /// </summary>
    internal static class PairwiseSum
    {
        private const int Block = 128;

        /// <summary>Sum of <paramref name="count"/> terms from <paramref name="start"/> on.</summary>
        public static double Of<T>(T terms, int start, int count)
            where T : struct, ITerms
        {
            if (count < 8)
            {
                return Few(terms, start, count, 0.0);
            }
            if (count <= Block)
            {
                return Eightfold(terms, start, count);
            }
            var half = count / 2;
            half -= half % 8;
            return Of(terms, start, half) + Of(terms, start + half, count - half);
        }

        private static double Few<T>(T terms, int start, int count, double sum)
            where T : struct, ITerms
        {
            for (var index = start; index < start + count; index++)
            {
                sum += terms.At(index);
            }
            return sum;
        }

        private static double Eightfold<T>(T terms, int start, int count)
            where T : struct, ITerms
        {
            double a = terms.At(start), b = terms.At(start + 1), c = terms.At(start + 2), d = terms.At(start + 3);
            double e = terms.At(start + 4), f = terms.At(start + 5), g = terms.At(start + 6), h = terms.At(start + 7);
            var whole = count - (count % 8);
            for (var index = start + 8; index < start + whole; index += 8)
            {
                a += terms.At(index);
                b += terms.At(index + 1);
                c += terms.At(index + 2);
                d += terms.At(index + 3);
                e += terms.At(index + 4);
                f += terms.At(index + 5);
                g += terms.At(index + 6);
                h += terms.At(index + 7);
            }
            return Few(terms, start + whole, count - whole, (a + b + (c + d)) + (e + f + (g + h)));
        }
    }
}
