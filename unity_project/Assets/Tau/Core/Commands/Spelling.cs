using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>Suggestions for words with up to a third of their letters mistyped.</summary>
    internal static class Spelling
    {
        /// <summary>The end of a sentence: "; did you mean `x`?", or <paramref name="otherwise"/> if no word is
        /// close.</summary>
        public static string Hint(string word, IEnumerable<string> known, string otherwise)
        {
            var closest = known.OrderBy(candidate => Distance(word ?? "", candidate)).First();
            var close = Distance(word ?? "", closest) <= Math.Max(1, closest.Length / 3);
            return close ? $"; did you mean `{closest}`?" : otherwise;
        }

        /// <summary>Number of letters to insert, remove or replace (Levenshtein, 1965), computed row by row.</summary>
        private static int Distance(string left, string right)
        {
            var costs = Enumerable.Range(0, right.Length + 1).ToArray();
            for (var row = 1; row <= left.Length; row++)
            {
                var diagonal = costs[0]++;
                for (var column = 1; column <= right.Length; column++)
                {
                    var replaced = diagonal + (left[row - 1] == right[column - 1] ? 0 : 1);
                    diagonal = costs[column];
                    costs[column] = Math.Min(replaced, 1 + Math.Min(costs[column], costs[column - 1]));
                }
            }
            return costs[right.Length];
        }
    }
}
