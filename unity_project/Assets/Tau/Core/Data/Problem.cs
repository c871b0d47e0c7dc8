using System.Globalization;

namespace Tau.Core
{
    /// <summary>One row of a data set that cannot be used, or one text in it that has no embedding.</summary>
    public sealed class Problem
    {
        internal Problem(string section, int row, string kind, string reason)
        {
            Section = section;
            Row = row;
            Kind = kind;
            Reason = reason;
        }

        /// <summary>`training_data` or `evaluation_data`.</summary>
        public string Section { get; }

        /// <summary>Position in its section, counted from 1.</summary>
        public int Row { get; }

        /// <summary>
        /// `malformed`; `duplicate` (prompt seen before); `leak` (evaluation prompt in training); `missing` (no
        /// embedding).
        /// </summary>
        public string Kind { get; }

        /// <summary>What is wrong, as the rest of a sentence.</summary>
        public string Reason { get; }

        /// <summary>Place and reason.</summary>
        public override string ToString()
        {
            return Section + " row " + Row.ToString(CultureInfo.InvariantCulture) + ": " + Reason;
        }
    }
}
