using System;
using System.Globalization;

namespace Tau.Core
{
    /// <summary>Sentences on what goes wrong with one pair.</summary>
    internal static class PairFault
    {
        /// <summary>What ended the pair: a mistake's own sentence, or one on the agent's exception.</summary>
        /// <returns>Null: there was no error.</returns>
        public static string Of(int id, Exception error)
        {
            return error == null || error is TauException
                ? error?.Message
                : Sentence(id, $"failed in its agent ({error.GetType().Name}: {error.Message.TrimEnd('.')})");
        }

        /// <summary>A call at the wrong time.</summary>
        public static InvalidOperationException Misuse(int id, string rest)
        {
            return new InvalidOperationException(Sentence(id, rest));
        }

        /// <summary>A sentence that begins with the pair.</summary>
        public static string Sentence(int id, string rest)
        {
            return "Pair " + id.ToString(CultureInfo.InvariantCulture) + " " + rest + ".";
        }
    }
}
