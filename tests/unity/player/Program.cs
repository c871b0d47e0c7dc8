using System;
using System.Collections;
using System.Collections.Concurrent;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Threading;
using Unity.MLAgents;
using Unity.MLAgents.Policies;
using UnityEngine;
using UnityEngine.SceneManagement;
using Object = UnityEngine.Object;

namespace Tau.Player
{
    /// <summary>
    /// Stands where a Linux build stands: this project's own assemblies and ML-Agents' own, in frames without a screen.
    /// </summary>
    internal static class Program
    {
        private const BindingFlags Any =
            BindingFlags.Instance | BindingFlags.Static | BindingFlags.Public | BindingFlags.NonPublic;

        private const int FramesBetweenLines = 250;

        private static readonly ConcurrentQueue<Action> Posted = new ConcurrentQueue<Action>();

        public static int Main(string[] arguments)
        {
            int at = Array.IndexOf(arguments, "-logFile");
            if (at >= 0)
            {
                Console.SetError(new StreamWriter(arguments[at + 1]) { AutoFlush = true });
            }
            SynchronizationContext.SetSynchronizationContext(new MainThread());
            AppDomain.CurrentDomain.ProcessExit += (_, __) => Application.Quit();
            Open(arguments.Where(argument => argument.StartsWith("-field=")).ToArray());
            Begin(typeof(TauBootstrap).Assembly);
            string[] lines = arguments.Where(argument => argument.StartsWith("-type=")).ToArray();
            if (lines.Length > 0)
            {
                Type(lines, arguments.Contains("-guess"));
            }
            while (Application.ExitCode == null)
            {
                Frame();
            }
            Tell("OnApplicationQuit");
            Application.TellQuitting();
            SceneManager.GetActiveScene().GetRootGameObjects().ToList().ForEach(Object.Destroy);
            Object.Bury();
            return Application.ExitCode.Value;
        }

        /// <summary>
        /// Types lines into the game's console, some frames after each other, and ends the game. Where models guess, the
        /// agent of the inference scene acts by its heuristic: there is nothing here to run a model with.
        /// </summary>
        private static void Type(string[] lines, bool guess)
        {
            if (guess)
            {
                GameObject.Waking = Guess;
            }
            TauConsole console = SceneManager.GetActiveScene().GetRootGameObjects()
                .Select(root => root.GetComponentInChildren<TauConsole>(true)).First(found => found != null);
            foreach (string line in lines)
            {
                console.Execute(line.Substring("-type=".Length));
                for (var frame = 0; frame < FramesBetweenLines; frame++)
                {
                    Frame();
                }
            }
            object shown = typeof(TauConsole).GetField("_text", Any).GetValue(console);
            foreach (object line in (IEnumerable)shown.GetType().GetProperty("Lines", Any).GetValue(shown))
            {
                Debug.Log("console: " + line.GetType().GetProperty("Text", Any).GetValue(line));
            }
            Academy academy = Academy.Instance;
            console.Execute("training cancel");
            var step = (Delegate)typeof(Academy).GetField("AgentPreStep", Any).GetValue(academy);
            int managers = step.GetInvocationList().Count(listener => listener.Target is ParallelTrainerManager);
            Debug.Log("managers that listen: " + managers);
            Application.Quit();
        }

        private static void Guess(GameObject host)
        {
            var behavior = host.GetComponent<BehaviorParameters>();
            if (behavior != null)
            {
                behavior.BehaviorType = BehaviorType.HeuristicOnly;
            }
        }

        /// <summary>Opens an empty scene, or one that is marked as this project's, with these fields set.</summary>
        private static void Open(string[] fields)
        {
            TauScene scene = fields.Length > 0 ? new GameObject("Tau").AddComponent<TauScene>() : null;
            foreach (string[] words in fields.Select(field => field.Split('=')))
            {
                FieldInfo field = typeof(TauScene).GetField(words[1], Any);
                field.SetValue(scene, Convert.ChangeType(words[2], field.FieldType));
            }
        }

        /// <summary>What scripts want done once the scene is loaded.</summary>
        private static void Begin(Assembly scripts)
        {
            const BindingFlags Own = Any | BindingFlags.DeclaredOnly;
            foreach (MethodInfo method in scripts.GetTypes().SelectMany(type => type.GetMethods(Own)))
            {
                if (method.IsDefined(typeof(RuntimeInitializeOnLoadMethodAttribute)))
                {
                    ((Action)method.CreateDelegate(typeof(Action)))();
                }
            }
        }

        private static void Frame()
        {
            Tell("FixedUpdate");
            Tell("Update");
            while (Posted.TryDequeue(out Action work))
            {
                work();
            }
            Object.Bury();
        }

        private static void Tell(string message)
        {
            foreach (Component part in SceneManager.GetActiveScene().GetRootGameObjects()
                .SelectMany(root => root.GetComponentsInChildren<MonoBehaviour>(true)))
            {
                part.Step(message);
            }
        }

        /// <summary>Unity's main thread: what is posted waits for the next frame.</summary>
        private sealed class MainThread : SynchronizationContext
        {
            public override void Post(SendOrPostCallback callback, object state) =>
                Posted.Enqueue(() => callback(state));
        }
    }
}
