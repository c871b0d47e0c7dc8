using System;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// Stands where a Unity build stands: started with a build's flags, connects to a trainer that speaks ML-Agents'
    /// protocol, and plays the Tau task with the Unity project's own core.
    /// </summary>
    internal static class Program
    {
        private const int Ended = 0;
        private const int Defect = 1;
        private const int Mistake = 2;

        /// <summary>Run the engine.</summary>
        /// <param name="arguments">The command line.</param>
        /// <returns>0: the trainer or the user ended it; 1: a defect; 2: a mistake, told in one sentence.</returns>
        public static int Main(string[] arguments)
        {
            var log = EngineLog.Open(null);
            try
            {
                log = EngineLog.Open(EngineOptions.LogFile(arguments));
                using (var stop = new StopSignal())
                {
                    Run(EngineOptions.Parse(arguments), log, stop);
                }

                return Ended;
            }
            catch (TauException error)
            {
                log.Write("error: " + error.Message);
                return Mistake;
            }
            catch (Exception error)
            {
                log.Write("the engine has a defect\n" + error);
                return Defect;
            }
            finally
            {
                log.Dispose();
            }
        }

        private static void Run(EngineOptions options, EngineLog log, StopSignal stop)
        {
            var dataset = TauDataset.Load(options.DataPath);
            foreach (var warning in new[] { options.Tau.IgnoredSentence, dataset.SkippedSentence() })
            {
                if (warning != null)
                {
                    log.Write(warning);
                }
            }

            Check(options.Tau, dataset);
            using (var link = new TrainerLink(options.Port, () => stop.Requested))
            {
                new LockstepEngine(options, dataset, link, log).Run();
            }
        }

        /// <summary>
        /// Find mistakes before a trainer waits for this engine; its parameters may still change things.
        /// </summary>
        private static void Check(TauOptions options, TauDataset dataset)
        {
            _ = new TauTask(dataset, TauProfile.Get(options.Profile), options.Rules);
        }
    }
}
