using UnityEngine;

namespace Tau
{
    /// <summary>What the program runs in: the editor, a player with a window, or one that nobody watches.</summary>
    internal static class TauHost
    {
        /// <summary>Nobody watches: no window, no console, and nobody who could type.</summary>
        public static bool IsBatch => Application.isBatchMode;

        /// <summary>Ends a player with an exit code; in the editor nothing happens.</summary>
        public static void Quit(int exitCode)
        {
            if (!Application.isEditor)
            {
                Application.Quit(exitCode);
            }
        }
    }
}
