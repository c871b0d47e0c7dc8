using System;
using System.Collections.Generic;

namespace Tau.Core
{
    /// <summary>What somebody who mistyped up to a third of a word may have meant.</summary>
    internal static class Spelling
    {
        /// <summary>The end of a sentence: "; did you mean `x`?", or something else where no word is close.</summary>
        public static string Hint(string word, IEnumerable<string> known, string otherwise)
        {
            var closest = Closest(word, known);
            return closest == null ? otherwise : "; did you mean `" + closest + "`?";
        }

        /// <summary>The first of the closest known words; null: none is close.</summary>
        public static string Closest(string word, IEnumerable<string> known)
        {
            string closest = null;
            var least = int.MaxValue;
            foreach (var candidate in known)
            {
                var distance = Distance(word.ToLowerInvariant(), candidate.ToLowerInvariant());
                if (distance < least && distance <= Math.Max(1, candidate.Length / 3))
                {
                    closest = candidate;
                    least = distance;
                }
            }
            return closest;
        }

        /// <summary>
        /// Letters to insert, remove, replace or swap with their neighbour (Damerau, CACM 7, 1964; restricted).
        /// </summary>
        private static int Distance(string left, string right)
        {
            var cost = new int[left.Length + 1, right.Length + 1];
            for (var row = 0; row <= left.Length; row++)
            {
                for (var column = 0; column <= right.Length; column++)
                {
                    cost[row, column] = row == 0 || column == 0 ? row + column : Step(left, right, cost, row, column);
                }
            }
            return cost[left.Length, right.Length];
        }

        private static int Step(string left, string right, int[,] cost, int row, int column)
        {
            var other = left[row - 1] == right[column - 1] ? 0 : 1;
            var one = 1 + Math.Min(cost[row - 1, column], cost[row, column - 1]);
            var best = Math.Min(cost[row - 1, column - 1] + other, one);
            var swapped = row > 1 && column > 1
                && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
            return swapped ? Math.Min(best, cost[row - 2, column - 2] + 1) : best;
        }
    }
}
