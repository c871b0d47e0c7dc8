using System.Collections.Generic;

namespace Tau.Core
{
    /// <summary>One well-formed conversation: couples of user text and answer.</summary>
    internal sealed class TauMessage
    {
        public TauMessage(string section, int row, string domain, List<string> texts)
        {
            Section = section;
            Row = row;
            Pairs = new TauPair[texts.Count / 2];
            for (var couple = 0; couple < Pairs.Length; couple++)
            {
                Pairs[couple] = new TauPair(texts[2 * couple], texts[(2 * couple) + 1], domain, section, row);
            }
        }

        public string Section { get; }

        public int Row { get; }

        /// <summary>At least one in a message without fault.</summary>
        public TauPair[] Pairs { get; }
    }
}
