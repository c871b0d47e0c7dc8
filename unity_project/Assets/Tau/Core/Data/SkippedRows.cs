using System.Collections.Generic;
using System.Globalization;
using System.Linq;

namespace Tau.Core
{
    /// <summary>Sentences on rows that were left out of a data set.</summary>
    internal static class SkippedRows
    {
        private const int MostNumbers = 12;

        /// <summary>How many rows were left out, which, and what to do.</summary>
        public static string Sentence(string source, IReadOnlyList<Problem> problems)
        {
            var sections = problems.GroupBy(problem => problem.Section).ToList();
            var places = string.Join(" and ", sections.Select(section => section.Key + " " + RowList(section)));
            var count = sections.Sum(section => Rows(section).Count);
            return Number(count) + " row" + (count == 1 ? string.Empty : "s") + " of " + source + " left out (" + places
                + "); " + Remedy(source, problems);
        }

        /// <summary>Why no training row can be used.</summary>
        public static string NothingLeft(string source, IReadOnlyList<Problem> problems)
        {
            var training = problems.Where(problem => problem.Section == TauFileReader.Training).ToList();
            if (training.Count == 0)
            {
                return "The data file " + source + " has no rows in `training_data`; add some.";
            }
            var missing = training.Where(problem => problem.Kind == "missing").ToList();
            var reason = missing.Count > 0 ? "have no embedding" : "is the first fault (" + training[0].Reason + ")";
            return "No row of `training_data` in " + source + " can be used: "
                + RowList(missing.Count > 0 ? missing : training.Take(1)) + " " + reason + "; "
                + Remedy(source, problems);
        }

        /// <summary>`row 4` or `rows 4, 7, 9 and 3 more`, in order and without repetition.</summary>
        private static string RowList(IEnumerable<Problem> problems)
        {
            var numbers = Rows(problems);
            var shown = string.Join(", ", numbers.Take(MostNumbers).Select(Number));
            var rest = numbers.Count - MostNumbers;
            var more = rest > 0 ? " and " + Number(rest) + " more" : string.Empty;
            return (numbers.Count > 1 ? "rows " : "row ") + shown + more;
        }

        private static List<int> Rows(IEnumerable<Problem> problems)
        {
            return problems.Select(problem => problem.Row).Distinct().OrderBy(row => row).ToList();
        }

        private static string Remedy(string source, IReadOnlyList<Problem> problems)
        {
            return problems.Any(problem => problem.Kind == "missing")
                ? "run `tau-train data embed " + source + "` for the missing embeddings."
                : "run `tau-train data audit " + source + "` for the reasons.";
        }

        private static string Number(int value)
        {
            return value.ToString(CultureInfo.InvariantCulture);
        }
    }
}
